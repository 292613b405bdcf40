package history_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/history"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

// unfenced are rights that everybody gets at the same time: the fence is taken out.
type unfenced struct{ levels.Builds }

func (u unfenced) Acquire(ctx context.Context, corpus string, right levels.Right, holder string, ttl time.Duration, floor int64) (levels.Lease, error) {
	if right == levels.RightDocuments {
		right += levels.Right(rand.Text())
	}
	return u.Builds.Acquire(ctx, corpus, right, holder, ttl, floor)
}

// run lets clients work on two processes that share a place.
func run(t *testing.T, place *servicetest.Place, seed uint64, operations int) history.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := history.Config{Corpus: "c", Seed: seed, Clients: 6, Documents: 4, Operations: operations, Timeout: 20 * time.Second}
	report, err := history.Run(ctx, cfg, []history.Coordinator{place.ServiceOf(t, "one"), place.ServiceOf(t, "two")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %v", seed, report)
	return report
}

// TestLinearizable: clients ingest, delete, list, read, build and collect at the same time, on two processes.
func TestLinearizable(t *testing.T) {
	report := run(t, servicetest.Open(t, t.TempDir()), 1, 400)
	if len(report.Wrong) > 0 || report.Operations < 400 || report.By["put ok"] == 0 || report.By["read ok"] == 0 || report.Generations == 0 {
		t.Error(report)
	}
}

// TestBreakIsFound: without the fence the history isn't linearizable, and the judgment says so. Whether writers meet is up to the
// moment, so a history in which they didn't is followed by another.
func TestBreakIsFound(t *testing.T) {
	for seed := range uint64(8) {
		place := servicetest.Open(t, t.TempDir())
		place.Builds = func(b levels.Builds) levels.Builds { return unfenced{b} }
		report := run(t, place, seed+1, 400)
		if len(report.Wrong) > 0 && strings.Contains(report.String(), "no order of its") {
			return
		}
	}
	t.Error("the fence was taken out, and nothing was found")
}
