package leveltest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Ports is one implementation of the ports that coordinators and workers share.
type Ports struct {
	Barrier levels.Barrier
	Builds  levels.Builds
	Corpora levels.Corpora
	Members levels.Members
	// Advance lets time pass for leases: it sets a test's clock forward, or waits.
	Advance func(time.Duration)
}

// Run holds an implementation to the contracts of [levels.Barrier], [levels.Builds], [levels.Corpora] and
// [levels.Members]. open
// returns ports that are ready for use, and closes them when the test that is passed in has ended. They may be
// shared between tests, since no two tests use the same corpus.
func Run(t *testing.T, open func(t *testing.T) Ports) {
	t.Run("Barrier", func(t *testing.T) { RunBarrier(t, open) })
	t.Run("Builds", func(t *testing.T) { RunBuilds(t, open) })
	t.Run("Corpora", func(t *testing.T) { RunCorpora(t, open) })
	t.Run("Members", func(t *testing.T) { RunMembers(t, open) })
}

type contractTest struct {
	name string
	run  func(*suite)
}

// suite is one test with its ports and its corpus.
type suite struct {
	*testing.T
	Ports
	corpus string
}

func runAll(t *testing.T, part string, tests []contractTest, open func(t *testing.T) Ports) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.run(&suite{T: t, Ports: open(t), corpus: "contract-" + strings.ToLower(part+"-"+test.name)})
		})
	}
}

// same compares with go-cmp; nil and empty are the same, and so are times that name the same moment. The version of a record is the
// affair of whoever keeps copies.
func (s *suite) same(what string, got, want any) {
	s.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0), cmpopts.IgnoreFields(levels.Corpus{}, "Version")); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (s *suite) ok(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *suite) fails(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: %v, want %v", what, err, want)
	}
}
