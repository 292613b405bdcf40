package queuetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Opened is an empty queue for one test of the suite.
type Opened struct {
	Queue queue.Queue
	// Second opens another client of the same queue; nil if all clients share Queue.
	Second func() queue.Queue
	// Restart ends the queue as abruptly as the implementation can, starts it over what it had kept, and
	// returns the new client.
	Restart func() queue.Queue
	// DropsLeases says that a restart ends all leases at once.
	DropsLeases bool
}

// Leases that the tests ask for, and the time for which they watch that nothing comes.
const (
	brief  = time.Second     // is waited out
	beaten = 3 * time.Second // is kept by heartbeats, which a slow machine delays
	long   = time.Minute     // outlives every test, however slow the machine
	quiet  = 100 * time.Millisecond
)

// second returns another client.
func (o *Opened) second() queue.Queue {
	if o.Second == nil {
		return o.Queue
	}
	return o.Second()
}

// patience bounds every wait of the suite; a test that needs it has failed.
const patience = 30 * time.Second

// Run checks that a queue keeps the contract of queue.Queue. open returns an empty one each time, with deliveries
// that may be held for the given time without Extend; it registers its own clean-up with t.
func Run(t *testing.T, open func(t *testing.T, lease time.Duration) Opened) {
	tests := []struct {
		name  string
		lease time.Duration
		run   func(t *testing.T, o Opened)
	}{
		{"TaskArrivesAsPublished", long, testRoundTrip},
		{"DuplicateOfUnfinishedIsPublished", long, testDuplicate},
		{"DoneTaskMayBePublishedAgain", long, testRepublish},
		{"SameIDInOtherBuildAndLevelIsAnotherTask", long, testSameID},
		{"InvalidTasksAreRefused", long, testInvalid},
		{"TooLargeTaskIsRefused", long, testTooLarge},
		{"HeadersReachEveryDelivery", brief, testHeaders},
		{"HeadersSurviveARestart", brief, testHeadersRestart},
		{"HeadersOfTheFirstCopyStay", long, testHeadersDuplicate},
		{"TheDeadKeepNoHeaders", long, testHeadersDead},
		{"HeadersThatCannotTravelAreRefused", long, testHeadersInvalid},
		{"QueuedListsWaitingAndInHand", long, testQueued},
		{"QueuedListsThousands", long, testQueuedMany},
		{"NamesOfAnyScriptAreKeptApart", long, testNames},
		{"TwoWorkersSplitTheWork", long, testSplit},
		{"ReceiveEndsWithItsContext", long, testReceiveContext},
		{"NothingIsHeldByACancelledReceive", long, testCancelledReceive},
		{"ReceiveWakesOnPublish", long, testReceiveWakes},
		// FAULTS: riverqueue/river 1258.
		{"LeaseExpiryRedelivers", brief, testExpiry},
		{"ExtendKeeps", beaten, testExtend},
		{"ExtendAfterExpiryIsLost", brief, testExtendLost},
		{"LateDoneIsHarmless", brief, testLateDone},
		{"LateDoneSparesTheNextCopy", brief, testLateDoneNextCopy},
		{"LateRetryAndBuryChangeNothing", brief, testLateRetryAndBury},
		{"RetryComesBackAfterTheDelay", long, testRetryDelay},
		{"RetryAtOnce", long, testRetryNow},
		{"SettledOnce", long, testSettledOnce},
		{"BuryCopiesThenRemoves", brief, testBury},
		{"BuryTwiceListsOnceTheLastWins", long, testBuryTwice},
		{"DeadAreOrdered", long, testDeadOrder},
		{"Exhume", long, testExhume},
		{"WithdrawLeavesTheDead", long, testWithdraw},
		{"PurgeTakesOneBuild", long, testPurge},
		{"PurgeEndsTheLease", brief, testPurgeInHand},
		{"RestartLosesNothing", brief, testRestart},
		{"RestartEndsLeasesOrKeepsThem", long, testRestartInHand},
		{"RestartRefusesDuplicates", brief, testRestartDuplicate},
		{"SumHoldsUnderRandomSettling", long, testSum},
	}
	together(t, len(tests), func(i int) (string, func(t *testing.T)) {
		return tests[i].name, func(t *testing.T) { tests[i].run(t, open(t, tests[i].lease)) }
	})
}

// together runs subtests at the same time. They wait most of the time, so t.Parallel with its one test for each
// processor would take long.
func together(t *testing.T, n int, subtest func(i int) (string, func(t *testing.T))) {
	slots := make(chan struct{}, 8)
	var wait sync.WaitGroup
	for i := range n {
		name, run := subtest(i)
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			t.Run(name, run)
		})
	}
	wait.Wait()
}

// Tasks returns n different tasks of one level.
func Tasks(corpus, build string, level, n int) []queue.Task {
	tasks := make([]queue.Task, n)
	for i := range tasks {
		children := []tree.ID{
			tree.LeafID(corpus, build, 2*i, "first child"),
			tree.LeafID(corpus, build, 2*i+1, "second child"),
		}
		tasks[i] = queue.Task{
			Corpus: corpus, Build: build, Level: level,
			ID:       tree.SummaryID(corpus, tree.CorpusTree, level, "recipe", children),
			Position: i, Digest: "digest", Recipe: "recipe", Generation: 1,
			Scope: tree.ScopeCorpus, DocumentID: tree.CorpusTree, NLeaves: 2,
			Children: children,
		}
	}
	return tasks
}

func publish(t *testing.T, q queue.Queue, tasks ...queue.Task) {
	t.Helper()
	if err := q.Publish(t.Context(), tasks); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

// receive fails the test if no task comes.
func receive(t *testing.T, q queue.Queue) queue.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := q.Receive(ctx)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return d
}

// wantNone fails the test if a task comes within d.
func wantNone(t *testing.T, q queue.Queue, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	got, err := q.Receive(ctx)
	if err == nil {
		t.Fatalf("received task %d of level %d, want none", got.Task().Position, got.Task().Level)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("receive: %v, want the end of its context", err)
	}
}

func done(t *testing.T, d queue.Delivery) {
	t.Helper()
	if err := d.Done(t.Context()); err != nil {
		t.Fatalf("done: %v", err)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}

// wantQueued compares a level's unfinished tasks.
func wantQueued(t *testing.T, q queue.Queue, level tree.Level, want ...queue.Task) {
	t.Helper()
	got, err := q.Queued(t.Context(), level)
	if err != nil {
		t.Fatalf("queued: %v", err)
	}
	slices.SortFunc(got, tree.ID.Compare)
	if diff := cmp.Diff(ids(want), got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("queued tasks (-want +got):\n%s", diff)
	}
}

// ids returns the tasks' ids, ascending.
func ids(tasks []queue.Task) []tree.ID {
	var list []tree.ID
	for _, task := range tasks {
		list = append(list, task.ID)
	}
	slices.SortFunc(list, tree.ID.Compare)
	return list
}

func dead(t *testing.T, q queue.Queue, corpus, build string) []queue.Buried {
	t.Helper()
	list, err := q.Dead(t.Context(), corpus, build)
	if err != nil {
		t.Fatalf("dead: %v", err)
	}
	return list
}

func testRoundTrip(t *testing.T, o Opened) {
	want := Tasks("corpus", "build", 1, 1)[0]
	want.Scope, want.DocumentID = tree.ScopeDocument, "docs/Überblick, Teil 2 (neu).md"
	publish(t, o.Queue, want)
	d := receive(t, o.second())
	if diff := cmp.Diff(want, d.Task()); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	done(t, d)
	wantNone(t, o.Queue, quiet)
	wantQueued(t, o.Queue, want.Of())
}

func testDuplicate(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 3)
	publish(t, o.Queue, tasks...)
	publish(t, o.Queue, tasks...)
	publish(t, o.second(), append(tasks, tasks...)...)
	wantQueued(t, o.Queue, tasks[0].Of(), tasks...)
	inHand := receive(t, o.Queue)
	publish(t, o.Queue, tasks...)
	done(t, inHand)
	done(t, receive(t, o.Queue))
	done(t, receive(t, o.Queue))
	wantNone(t, o.Queue, quiet)
}

func testRepublish(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	for range 3 {
		publish(t, o.Queue, task)
		d := receive(t, o.Queue)
		if diff := cmp.Diff(task, d.Task()); diff != "" {
			t.Fatalf("task (-want +got):\n%s", diff)
		}
		done(t, d)
		wantQueued(t, o.Queue, task.Of())
	}
}

func testSameID(t *testing.T, o Opened) {
	task := Tasks("corpus", "build", 1, 1)[0]
	build, level, corpus := task, task, task
	build.Build, level.Level, corpus.Corpus = "build-2", 2, "corpus-2"
	publish(t, o.Queue, task, build, level, corpus)
	for _, one := range []queue.Task{task, build, level, corpus} {
		wantQueued(t, o.Queue, one.Of(), one)
	}
	for range 4 {
		done(t, receive(t, o.Queue))
	}
	wantNone(t, o.Queue, quiet)
}

func testInvalid(t *testing.T, o Opened) {
	good := Tasks("corpus", "build", 1, 1)[0]
	for name, spoil := range map[string]func(*queue.Task){
		"no corpus": func(task *queue.Task) { task.Corpus = "" },
		"no build":  func(task *queue.Task) { task.Build = "" },
		"level 0":   func(task *queue.Task) { task.Level = 0 },
		"no id":     func(task *queue.Task) { task.ID = tree.ID{} },
	} {
		bad := good
		spoil(&bad)
		if err := o.Queue.Publish(t.Context(), []queue.Task{bad}); err == nil {
			t.Errorf("publish of a task with %s: got no error", name)
		}
	}
	wantNone(t, o.Queue, quiet)
}

func testTooLarge(t *testing.T, o Opened) {
	good, bad := Tasks("corpus", "build", 1, 1)[0], Tasks("corpus", "build", 1, 2)[1]
	// A child takes 39 bytes: 36 digits and hyphens, two quotes, a comma.
	bad.Children = slices.Repeat(bad.Children[:1], queue.MaxTaskBytes/39)
	err := o.Queue.Publish(t.Context(), []queue.Task{bad})
	wantError(t, "publish", err, queue.ErrTooLarge)
	if !strings.Contains(err.Error(), bad.ID.String()) {
		t.Errorf("error %q doesn't name the task", err)
	}
	wantQueued(t, o.Queue, bad.Of())

	good.Children = slices.Repeat(good.Children[:1], queue.MaxTaskBytes/39-16)
	publish(t, o.Queue, good)
	d := receive(t, o.Queue)
	if diff := cmp.Diff(good, d.Task()); diff != "" {
		t.Errorf("the largest task (-want +got):\n%s", diff)
	}
	done(t, d)
}

func testQueued(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 3)
	publish(t, o.Queue, tasks...)
	publish(t, o.Queue, Tasks("corpus", "build", 2, 2)...)
	publish(t, o.Queue, Tasks("corpus", "build-2", 1, 2)...)
	level := tasks[0].Of()
	d := receive(t, o.Queue)
	wantQueued(t, o.Queue, level, tasks...)
	if err := d.Retry(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	wantQueued(t, o.second(), level, tasks...)
	wantQueued(t, o.Queue, tree.Level{Corpus: "corpus", Build: "none", Level: 1})
}

func testQueuedMany(t *testing.T, o Opened) {
	tasks := Tasks("corpus", "build", 1, 3000)
	publish(t, o.Queue, tasks...)
	wantQueued(t, o.Queue, tasks[0].Of(), tasks...)
}

// testNames uses names that would clash, or be no valid subject, if they were used as they are.
func testNames(t *testing.T, o Opened) {
	names := []string{"a", "a.b", "a b", "*", ">", "a=20b", "日本語", "A", "-", "$", "a\tb", strings.Repeat("x", 200)}
	for _, name := range names {
		publish(t, o.Queue, Tasks(name, "build", 1, 2)...)
		publish(t, o.Queue, Tasks("corpus", name, 1, 2)...)
	}
	for _, name := range names {
		wantQueued(t, o.Queue, tree.Level{Corpus: name, Build: "build", Level: 1}, Tasks(name, "build", 1, 2)...)
		wantQueued(t, o.Queue, tree.Level{Corpus: "corpus", Build: name, Level: 1}, Tasks("corpus", name, 1, 2)...)
	}
	for _, name := range names {
		if err := o.Queue.Purge(t.Context(), name, "build"); err != nil {
			t.Fatal(err)
		}
		wantQueued(t, o.Queue, tree.Level{Corpus: name, Build: "build", Level: 1})
	}
	for _, name := range names {
		wantQueued(t, o.Queue, tree.Level{Corpus: "corpus", Build: name, Level: 1}, Tasks("corpus", name, 1, 2)...)
	}
}

// testSplit holds every delivery until all are out: a client that fetched ahead would leave the other idle.
func testSplit(t *testing.T, o Opened) {
	const each = 5
	publish(t, o.Queue, Tasks("corpus", "build", 1, 2*each)...)
	var mu sync.Mutex
	seen := map[tree.ID]int{}
	var held [2][]queue.Delivery
	var workers sync.WaitGroup
	for w, q := range []queue.Queue{o.Queue, o.second()} {
		workers.Go(func() {
			for range each {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				d, err := q.Receive(ctx)
				cancel()
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				mu.Lock()
				seen[d.Task().ID]++
				held[w] = append(held[w], d)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("task %s was delivered %d times", id, n)
		}
	}
	if len(seen) != 2*each {
		t.Errorf("%d tasks were delivered, want %d", len(seen), 2*each)
	}
	for _, d := range slices.Concat(held[0], held[1]) {
		done(t, d)
	}
}
