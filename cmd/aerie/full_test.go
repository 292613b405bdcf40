package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/sqlite"
)

// bounded runs the program in a process whose files may have so many KB and no more, as on a disk that is full.
func bounded(t *testing.T, kb int64, args ...string) result {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-c", fmt.Sprintf("ulimit -f %d; exec \"$0\" \"$@\"", kb), program}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestA18FullDisk: a build that can write no more says so in one line and stops; nothing is buried, what was paid is kept, and the same
// command goes on once there is room.
func TestA18FullDisk(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 0)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	info, err := os.Stat(filepath.Join(".aerie", sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	// The places where it fills up: before the queue can be made, in mid-build, and where the database is larger than it may be.
	for _, kb := range []int64{4, info.Size()/1024 + 200, info.Size()/1024 + 1200} {
		r := bounded(t, kb, "build")
		if r.code != exitUnreachable || !strings.Contains(r.stderr, "is full: make room") || !strings.Contains(r.stderr, "goes on w") {
			t.Errorf("%d KB: exit %d, %s", kb, r.code, r.stderr)
		}
		if lines := strings.Count(r.stderr, "level="); lines > 4 {
			t.Errorf("%d KB: %d lines of log:\n%s", kb, lines, r.stderr)
		}
	}
	if paid := s.Counts().ChatOK; paid == 0 {
		t.Error("nothing was paid before the disk was full: this shows too little")
	}
	aerie(t, "status").want(t, exitDone)
	report := decode[api.BuildReport](t, aerie(t, "build", "-o", "json").want(t, exitDone))
	if report.Outcome != api.OutcomeBuilt || len(report.Buried) > 0 {
		t.Errorf("with room again it is %s, %d buried", report.Outcome, len(report.Buried))
	}
	if c := s.Counts(); c.Repeated > 0 {
		t.Errorf("%d of %d answers were paid for twice", c.Repeated, c.ChatOK)
	}
}

// TestA18Ingest: an ingest that can write no more says so, and the same again ends it.
func TestA18Ingest(t *testing.T) {
	fixtures := fresh(t)
	r := bounded(t, 100, "ingest", fixtures)
	if r.code != exitUnreachable || !strings.Contains(r.stderr, "is full: make room") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	aerie(t, "ingest", fixtures).want(t, exitDone)
	if status := aerie(t, "status").want(t, exitDone); !strings.Contains(status.stdout, "135") {
		t.Errorf("after it has ended there are other leaves: %s", status.stdout)
	}
}
