package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/tree"
)

// flakyCorpora can be made to fail.
type flakyCorpora struct {
	levels.Corpora
	down bool
}

func (c *flakyCorpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	if c.down {
		return nil, errors.New("connection refused")
	}
	return c.Corpora.Load(ctx, name)
}

// stand is one level of four tasks of a running build, in memory.
type stand struct {
	rig
	records *leveltest.Memory
	corpora *flakyCorpora
	lease   levels.Lease
	state   *levels.State
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{rig: rig{t: t, tel: newTelemetry(t, "coordinator")}, records: leveltest.NewMemory()}
	s.corpora = &flakyCorpora{Corpora: s.records.Corpora()}
	s.reader = &telemetry.Corpora{
		Telemetry: s.tel, Store: storetest.NewMemory(), Corpora: s.corpora, Builds: s.records, Barrier: s.records,
		MaxTokens: 1000, Rule: levels.Rule{Threshold: 0.25},
	}
	ctx := t.Context()
	s.must(s.records.Corpora().Update(ctx, "c", func(c *levels.Corpus) error {
		c.Generation, c.Changes, c.Baseline, c.Unseen = 1, 30, &levels.Baseline{Leaves: 100, Changes: 10}, 0.125
		return nil
	}))
	var err error
	s.lease, err = s.records.Acquire(ctx, "c", levels.RightBuild, "test", time.Hour, 0)
	s.must(err)
	s.begin("b1")
	return s
}

// begin saves a new build with an open level.
func (s *stand) begin(build string) {
	s.t.Helper()
	now := time.Now()
	s.state = &levels.State{
		Corpus: "c", Build: build, Status: levels.Running, Epoch: s.lease.Epoch, Started: now, Updated: now,
		Levels: []levels.Level{{Level: 1, Phase: levels.Open, Digest: "d", Total: 4, Carried: 2, Kept: 1, Largest: 77, Started: now}},
	}
	s.must(s.records.Save(s.t.Context(), s.lease, s.state))
	s.must(s.records.Open(s.t.Context(), tree.Level{Corpus: "c", Build: build, Level: 1}, "d", 4))
}

func (s *stand) mark(position int) {
	s.t.Helper()
	_, err := s.records.Mark(s.t.Context(), tree.Level{Corpus: "c", Build: s.state.Build, Level: 1}, "d",
		levels.Mark{Position: position, Outcome: levels.Done, Usage: tree.Usage{Calls: 1, InputTokens: 80, OutputTokens: 20}})
	s.must(err)
}

func (s *stand) read() gathered {
	s.t.Helper()
	s.must(s.reader.Read(s.t.Context()))
	return s.gather()
}

func (g gathered) all(t *testing.T, labels []string, names ...string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, name := range names {
		values[name] = g.at(t, name, labels...)
	}
	return values
}

// TestProgressMovesWithSettledTasks: the timestamp by which a stalled build is told moves when a task is settled, and
// only then.
func TestProgressMovesWithSettledTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		start := float64(s.state.Updated.UnixMilli()) / 1000
		progress := func() float64 { return s.read().at(t, telemetry.BuildProgressTimestamp, "corpus=c") - start }
		if got := progress(); got != 0 {
			t.Errorf("at its start progress was %v s ago", got)
		}
		<-time.After(time.Minute)
		if got := progress(); got != 0 {
			t.Errorf("nothing was settled, and progress moved by %v s", got)
		}
		s.mark(2)
		if got := progress(); got != 60 {
			t.Errorf("a task was settled after a minute, and progress moved by %v s", got)
		}
		<-time.After(time.Minute)
		if got := progress(); got != 60 {
			t.Errorf("nothing more was settled, and progress moved to %v s", got)
		}
		got := s.read()
		if diff := cmp.Diff(map[string]float64{
			telemetry.LevelExpected: 4, telemetry.LevelDone: 1, telemetry.LevelQueued: 3, telemetry.LevelRunning: 0, telemetry.LevelBuried: 0,
			telemetry.LevelOldest: 120, telemetry.LevelLargest: 77, telemetry.LevelMade: 1, telemetry.LevelCarried: 2, telemetry.LevelKept: 1,
		}, got.all(t, []string{"corpus=c", "level=1"}, telemetry.LevelExpected, telemetry.LevelDone, telemetry.LevelQueued, telemetry.LevelRunning,
			telemetry.LevelBuried, telemetry.LevelOldest, telemetry.LevelLargest, telemetry.LevelMade, telemetry.LevelCarried, telemetry.LevelKept)); diff != "" {
			t.Errorf("level (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{
			telemetry.CorpusGrowth: 0.2, telemetry.CorpusUnseen: 0.125, telemetry.CorpusGrowthThreshold: 0.25, telemetry.BuildRunning: 1, telemetry.BuildInputTokens: 80,
			telemetry.BuildOutputTokens: 20, telemetry.BuildBudget: 0.1,
		}, got.all(t, []string{"corpus=c"}, telemetry.CorpusGrowth, telemetry.CorpusUnseen, telemetry.CorpusGrowthThreshold, telemetry.BuildRunning, telemetry.BuildInputTokens,
			telemetry.BuildOutputTokens, telemetry.BuildBudget)); diff != "" {
			t.Errorf("corpus and build (-want +got):\n%s", diff)
		}
		if len(got[telemetry.BuildCost]) != 0 {
			t.Error("a cost is exported, and there is no price")
		}
	})
}

// TestSeriesGoWithTheirThings: levels of an older build, and a corpus that is dropped, leave no series behind; what can't
// be read is shown for a minute and no longer.
func TestSeriesGoWithTheirThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		s.state.Levels = append(s.state.Levels, levels.Level{Level: 2, Phase: levels.Planning})
		s.must(s.records.Save(t.Context(), s.lease, s.state))
		if got := len(s.read()[telemetry.LevelExpected]); got != 2 {
			t.Fatalf("%d levels, want 2", got)
		}
		s.begin("b2")
		if got := len(s.read()[telemetry.LevelExpected]); got != 1 {
			t.Errorf("%d levels after another build has begun, want 1", got)
		}
		s.corpora.down = true
		if err := s.reader.Read(t.Context()); err == nil {
			t.Error("no error, and the state can't be read")
		}
		<-time.After(59 * time.Second)
		if got := len(s.gather()[telemetry.CorpusLeaves]); got != 1 {
			t.Error("the last reading is gone within a minute")
		}
		<-time.After(2 * time.Second)
		got := s.gather()
		if len(got[telemetry.CorpusLeaves]) != 0 || len(got[telemetry.BuildRunning]) != 0 || len(got[telemetry.CorpusReadTimestamp]) != 1 {
			t.Errorf("after a minute: %v", got[telemetry.CorpusLeaves])
		}
		s.corpora.down = false
		s.read()
		s.must(s.records.Corpora().Drop(t.Context(), "c"))
		if got := len(s.read()[telemetry.CorpusReadTimestamp]); got != 0 {
			t.Errorf("%d series of a corpus that is gone", got)
		}
	})
}

// TestReaderStops: Run reads at once and then every few seconds, and ends with its context.
func TestReaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.reader.Run(ctx); close(ended) }()
		synctest.Wait()
		if !s.gather().moved(telemetry.BuildRunning) {
			t.Error("nothing was read at the start")
		}
		s.mark(0)
		<-time.After(6 * time.Second)
		synctest.Wait()
		if got := s.gather().at(t, telemetry.LevelDone, "corpus=c", "level=1"); got != 1 {
			t.Errorf("%v tasks are done after six seconds, want 1", got)
		}
		stop()
		<-ended
	})
}
