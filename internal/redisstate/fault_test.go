//go:build stack

package redisstate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// The names of tests here begin with the fault, as FAULTS.md calls it: who reported it, and where.

var (
	one = tree.Usage{Calls: 1, Reused: 2, InputTokens: 30, OutputTokens: 4}
	l1  = tree.Level{Corpus: "c", Build: "b", Level: 1}
)

func times(n int) tree.Usage {
	return tree.Usage{Calls: n, Reused: 2 * n, InputTokens: 30 * n, OutputTokens: 4 * n}
}

func done(positions ...int) []levels.Mark {
	var marks []levels.Mark
	for _, p := range positions {
		marks = append(marks, levels.Mark{Position: p, Outcome: levels.Done, Usage: one})
	}
	return marks
}

func open(t *testing.T, b *Barrier, total int) {
	t.Helper()
	if err := b.Open(t.Context(), l1, "digest", total); err != nil {
		t.Fatal(err)
	}
}

func mark(t *testing.T, b *Barrier, want levels.Count, marks ...levels.Mark) {
	t.Helper()
	got, err := b.Mark(t.Context(), l1, "digest", marks...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}

// redis/go-redis#3228: NOSCRIPT after the scripts are flushed, in the middle of a build.
func TestGoRedis3228ScriptsAreFlushedMidBuild(t *testing.T) {
	server := startServer(t)
	s, raw := connect(t, Config{URL: server.url()}), server.client(t)
	b := s.Barrier()
	const total = 200
	open(t, b, total)
	for p := range total {
		if p%3 == 0 {
			if err := raw.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		mark(t, b, levels.Count{Total: total, Done: p + 1, Usage: times(p + 1)}, done(p)...)
	}
}

// hibiken/asynq#1144, #799: Redis is flushed mid-build, and tasks that were in hand are stuck for ever. Here marks are refused
// until the coordinator has opened the level again, and then nothing is missing.
func TestAsynq1144FlushedMidBuild(t *testing.T) {
	server := startServer(t)
	s, raw := connect(t, Config{URL: server.url()}), server.client(t)
	b := s.Barrier()
	lease, err := s.Builds().Acquire(t.Context(), "c", levels.RightBuild, "a", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	open(t, b, 10)
	mark(t, b, levels.Count{Total: 10, Done: 4, Usage: times(4)}, done(0, 1, 2, 3)...)

	if err := raw.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Mark(t.Context(), l1, "digest", done(4)...); !errors.Is(err, levels.ErrNotOpen) {
		t.Errorf("Mark after the flush: %v, want ErrNotOpen", err)
	}
	if _, err := s.Builds().Renew(t.Context(), lease, time.Minute); !errors.Is(err, levels.ErrFenced) {
		t.Errorf("Renew after the flush: %v, want ErrFenced", err)
	}
	if err := s.Builds().Save(t.Context(), lease, &levels.State{}); !errors.Is(err, levels.ErrFenced) {
		t.Errorf("Save after the flush: %v, want ErrFenced", err)
	}

	// What a coordinator does at every start: a lease above the epoch that the tree record keeps, the level
	// opened again, the nodes that exist marked.
	again, err := s.Builds().Acquire(t.Context(), "c", levels.RightBuild, "a", time.Minute, lease.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	if again.Epoch <= lease.Epoch {
		t.Errorf("epoch %d after the flush, %d before", again.Epoch, lease.Epoch)
	}
	open(t, b, 10)
	mark(t, b, levels.Count{Total: 10, Done: 5, Usage: times(5)}, done(0, 1, 2, 3, 4)...)
}

// A part of a barrier's keys is gone, as after an eviction or a DEL by hand: that must not read as "nothing done".
func TestBarrierThatLostAKeyIsNotOpen(t *testing.T) {
	for i, name := range []string{"meta", "done", "dead"} {
		s := sharedState(t)
		b := s.Barrier()
		open(t, b, 10)
		if err := s.client.Del(t.Context(), s.levelKeys(l1)[i]).Err(); err != nil {
			t.Fatal(err)
		}
		_, markErr := b.Mark(t.Context(), l1, "digest", done(1)...)
		_, countErr := b.Count(t.Context(), l1)
		_, positionsErr := b.Positions(t.Context(), l1, levels.Done)
		for _, err := range []error{markErr, countErr, positionsErr, b.Clear(t.Context(), l1, []int{1})} {
			if !errors.Is(err, levels.ErrNotOpen) {
				t.Errorf("without %s: %v, want ErrNotOpen", name, err)
			}
		}
		open(t, b, 10)
		mark(t, b, levels.Count{Total: 10, Done: 1, Usage: times(1)}, done(1)...)
	}
}

// RolnickLab/antenna#1231: one reset of Redis flipped a job to FAILED.
func TestAntenna1231RedisIsAwayDuringMarks(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s := connect(t, Config{URL: server.url()})
	b := s.Barrier()
	const total = 60
	open(t, b, total)
	var wg sync.WaitGroup
	errs := make([]error, total)
	started := make(chan struct{}, total)
	for p := range total {
		wg.Go(func() {
			started <- struct{}{}
			_, errs[p] = b.Mark(context.Background(), l1, "digest", done(p)...)
		})
		if p == total/2 {
			server.kill()
		}
	}
	for range total {
		<-started
	}
	wait(t.Context(), 200*time.Millisecond)
	server.start()
	wg.Wait()
	for p, err := range errs {
		if err != nil {
			t.Errorf("mark %d: %v", p, err)
		}
	}
	mark(t, b, levels.Count{Total: total, Done: total, Usage: times(total)})
}

// Redis is away for longer than a call's patience: the error says so, by type and in words, and in time.
func TestUnavailable(t *testing.T) {
	server := startServer(t)
	s := connect(t, Config{URL: server.url(), Patience: 300 * time.Millisecond})
	open(t, s.Barrier(), 3)
	server.kill()
	start := time.Now()
	_, err := s.Barrier().Mark(t.Context(), l1, "digest", done(1)...)
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("Mark: %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("Mark took %v with a patience of 300 ms", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Barrier().Count(ctx, l1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Count with a context that ends: %v, want its error", err)
	}
	if _, err := Connect(t.Context(), Config{URL: server.url(), Patience: 50 * time.Millisecond}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Connect: %v, want ErrUnavailable", err)
	}
	server.start()
	if _, err := s.Barrier().Count(t.Context(), l1); !errors.Is(err, levels.ErrNotOpen) {
		t.Errorf("Count on the server that came back empty: %v, want ErrNotOpen", err)
	}
}

// A server that takes connections and says nothing, as one that was stopped.
func TestSilentServerCountsAsAway(t *testing.T) {
	server := startServer(t)
	s := connect(t, Config{URL: server.url(), Timeout: 50 * time.Millisecond, Patience: 200 * time.Millisecond})
	raw := server.client(t)
	if err := raw.Do(t.Context(), "CLIENT", "PAUSE", "600", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Barrier().Open(t.Context(), l1, "digest", 1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Open: %v, want ErrUnavailable", err)
	}
}

// sidekiq/sidekiq#6852, #4361: counters drift when a task completes twice. Here the reply to every fifth call is lost,
// so that it is made again after its effect; the contracts hold all the same, but for one: a mark that is made again can see
// more than it did itself. That is why no worker's "I was the last" counts.
func TestSidekiq6852ContractsWithLostReplies(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, shared.addr())
	leveltest.Run(t, func(t *testing.T) leveltest.Ports {
		proxy.losing(nil)
		s := connect(t, Config{URL: proxy.url(), Prefix: t.Name()})
		if !strings.HasSuffix(t.Name(), "/LastMarkSeesTheLevelComplete") {
			proxy.losing(everyScript(5))
		}
		t.Cleanup(func() { proxy.losing(nil) })
		direct := connect(t, Config{URL: shared.url(), Prefix: t.Name()})
		p := ports(t, s)
		p.Advance = func(d time.Duration) { age(t, direct, d) }
		return p
	})
	if n := proxy.count(); n < 50 {
		t.Errorf("%d replies were lost, which is too few to show anything", n)
	}
}

// A change of a record whose reply is lost is made once, even when another writer comes before the repeat.
func TestUpdateWithLostReplyIsMadeOnce(t *testing.T) {
	proxy := startProxy(t, shared.addr())
	s := connect(t, Config{URL: proxy.url(), Prefix: t.Name()})
	direct := connect(t, Config{URL: shared.url(), Prefix: t.Name()})
	add := func(n int64) func(*levels.Corpus) error {
		return func(c *levels.Corpus) error { c.Changes += n; return nil }
	}
	if err := s.Corpora().Update(t.Context(), "c", add(1)); err != nil { // and the script is known
		t.Fatal(err)
	}
	calls := 0
	every := everyScript(1)
	proxy.losing(func(request []byte) bool {
		if !every(request) {
			return false
		}
		calls++
		return calls == 1
	})
	var once sync.Once
	s.pauseHook = func() { // between the first try and its repeat
		once.Do(func() {
			if err := direct.Corpora().Update(t.Context(), "c", add(100)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.Corpora().Update(t.Context(), "c", add(10)); err != nil {
		t.Fatal(err)
	}
	got, err := direct.Corpora().Load(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	if got.Changes != 111 || calls != 2 {
		t.Errorf("changes are %d after +1, +10 and +100, by %d calls of which one was lost; want 111 by 2", got.Changes, calls)
	}
}

// A dead mark that comes in between a Clear whose reply is lost and its repeat stays.
func TestClearWithLostReplyIsMadeOnce(t *testing.T) {
	proxy := startProxy(t, shared.addr())
	s := connect(t, Config{URL: proxy.url(), Prefix: t.Name()})
	direct := connect(t, Config{URL: shared.url(), Prefix: t.Name()}).Barrier()
	open(t, direct, 4)
	mark(t, direct, levels.Count{Total: 4, Dead: 1}, levels.Mark{Position: 2, Outcome: levels.Dead})
	if err := s.Barrier().Clear(t.Context(), l1, []int{3}); err != nil { // the script is known
		t.Fatal(err)
	}
	calls := 0
	every := everyScript(1)
	proxy.losing(func(request []byte) bool {
		if !every(request) {
			return false
		}
		calls++
		return calls == 1
	})
	var once sync.Once
	s.pauseHook = func() {
		once.Do(func() {
			mark(t, direct, levels.Count{Total: 4, Dead: 1}, levels.Mark{Position: 2, Outcome: levels.Dead})
		})
	}
	if err := s.Barrier().Clear(t.Context(), l1, []int{2}); err != nil {
		t.Fatal(err)
	}
	mark(t, direct, levels.Count{Total: 4, Dead: 1})
}

// A Save that was given up on may arrive late; it must not undo a later one of the same holder.
func TestLateSaveDoesNotUndoALaterOne(t *testing.T) {
	s := sharedState(t)
	lease, err := s.Builds().Acquire(t.Context(), "c", levels.RightBuild, "a", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	early := s.sequence()
	if err := s.Builds().Save(t.Context(), lease, &levels.State{Build: "new"}); err != nil {
		t.Fatal(err)
	}
	keys := []string{s.corpusKey("c", "lease"), s.corpusKey("c", "build")}
	if _, err := s.run(t.Context(), s.scripts.save, keys, "a", lease.Epoch, early, `{"build":"old"}`); err != nil {
		t.Fatal(err)
	}
	got, err := s.Builds().Load(t.Context(), "c")
	if err != nil || got.Build != "new" {
		t.Errorf("Load: %+v, %v; want the newer state", got, err)
	}
}

// A restart of a server that keeps its data on disk changes nothing.
func TestRestartKeepsWhatWasMarked(t *testing.T) {
	server := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s := connect(t, Config{URL: server.url()})
	open(t, s.Barrier(), 5)
	mark(t, s.Barrier(), levels.Count{Total: 5, Done: 2, Usage: times(2)}, done(0, 4)...)
	lease, err := s.Builds().Acquire(t.Context(), "c", levels.RightBuild, "a", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	server.kill()
	server.start()
	mark(t, s.Barrier(), levels.Count{Total: 5, Done: 3, Usage: times(3)}, done(0, 3)...)
	if _, err := s.Builds().Acquire(t.Context(), "c", levels.RightBuild, "b", time.Minute, 0); !errors.Is(err, levels.ErrHeld) {
		t.Errorf("Acquire by another: %v, want ErrHeld", err)
	}
	if _, err := s.Builds().Renew(t.Context(), lease, time.Minute); err != nil {
		t.Errorf("Renew: %v", err)
	}
}

// infiniflow/ragflow#14101: a run changed another's state. Names that could be taken for each other don't meet.
func TestRagflow14101NamesDoNotMeet(t *testing.T) {
	s := sharedState(t)
	pairs := [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"a}", "b"}, {"{a", "}:b"}, {"a", "b"}, {"a%3A", "b"}, {"a/b", "c"}, {"ä ", "+"}, {"ä+", " "}, {"corpora", "records"}}
	for i, pair := range pairs {
		level := tree.Level{Corpus: pair[0], Build: pair[1], Level: 1}
		if err := s.Barrier().Open(t.Context(), level, fmt.Sprint(i), 100+i); err != nil {
			t.Fatal(err)
		}
	}
	for i, pair := range pairs {
		level := tree.Level{Corpus: pair[0], Build: pair[1], Level: 1}
		got, err := s.Barrier().Mark(t.Context(), level, fmt.Sprint(i))
		if err != nil || got.Total != 100+i {
			t.Errorf("barrier of %q: %+v, %v; want a total of %d", pair, got, err, 100+i)
		}
	}
}

// A closed State says so, and doesn't wait.
func TestClosed(t *testing.T) {
	s, err := Connect(t.Context(), Config{URL: shared.url(), Prefix: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Barrier().Open(t.Context(), l1, "digest", 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Open: %v, want ErrClosed", err)
	}
}
