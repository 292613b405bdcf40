package queuetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/tree"
)

// OpenedJournal is an empty journal for one test of the suite.
type OpenedJournal struct {
	Journal journal.Journal
	// Second opens another client of the same journal; nil if all clients share Journal.
	Second func() journal.Journal
	// Restart ends the journal abruptly, starts it over what it had kept and returns the new client.
	Restart func() journal.Journal
}

func (o *OpenedJournal) second() journal.Journal {
	if o.Second == nil {
		return o.Journal
	}
	return o.Second()
}

// JournalSuite checks that a journal keeps the contract of journal.Journal. open returns an empty one each time.
func JournalSuite(t *testing.T, open func(t *testing.T) OpenedJournal) {
	tests := []struct {
		name string
		run  func(t *testing.T, o OpenedJournal)
	}{
		{"LookupOfNothing", testLookupNothing},
		{"EntryComesBackAsRecorded", testEntryRoundTrip},
		{"TheFirstRecordWins", testFirstWins},
		{"TheFirstOfManyAtOnceWins", testFirstWinsConcurrently},
		{"ErasedAnswersAreGone", testErase},
		{"InvalidKeysAreRefused", testJournalKeys},
		{"AttemptsAreCounted", testAttempts},
		{"AttemptsAtOnceAreAllCounted", testAttemptsConcurrently},
		{"AttemptsAreKeptApart", testAttemptsApart},
		{"CallsEndWithTheirContext", testJournalContext},
		{"EverythingSurvivesARestart", testJournalRestart},
	}
	together(t, len(tests), func(i int) (string, func(t *testing.T)) {
		return tests[i].name, func(t *testing.T) { tests[i].run(t, open(t)) }
	})
}

// testErase: the texts of one corpus go, and those of which nobody knows the corpus; the others stay, and what was erased can be paid anew.
func testErase(t *testing.T, o OpenedJournal) {
	ctx := t.Context()
	for _, e := range []journal.Entry{{Text: "a1", Corpus: "a", Build: "x", OutputTokens: 3}, {Text: "a2", Corpus: "a"}, {Text: "b1", Corpus: "b"}, {Text: "old"}} {
		if err := o.Journal.Record(ctx, JournalKey(e.Text), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{3, 0} {
		if n, err := o.second().Erase(ctx, "a"); err != nil || n != want {
			t.Fatalf("erased %d, %v, want %d", n, err, want)
		}
	}
	for _, gone := range []string{"a1", "a2", "old"} {
		if e, err := o.Journal.Lookup(ctx, JournalKey(gone)); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%s is still there: %+v, %v", gone, e, err)
		}
	}
	if e, err := o.Journal.Lookup(ctx, JournalKey("b1")); err != nil || e.Text != "b1" {
		t.Errorf("the answer of another corpus: %+v, %v", e, err)
	}
	again := journal.Entry{Text: "again", Corpus: "a"}
	if err := o.Journal.Record(ctx, JournalKey("a1"), again); err != nil {
		t.Fatal(err)
	}
	if e, err := o.second().Lookup(ctx, JournalKey("a1")); err != nil || e.Text != again.Text {
		t.Errorf("paid anew: %+v, %v", e, err)
	}
}

// JournalKey returns a valid key for any text.
func JournalKey(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func entryOf(text string) journal.Entry {
	return journal.Entry{
		Text: text, InputTokens: 812, OutputTokens: 97, Build: "build",
		At: time.Date(2026, 11, 30, 2, 14, 5, 678, time.UTC),
	}
}

func record(t *testing.T, j journal.Journal, key string, e journal.Entry) {
	t.Helper()
	if err := j.Record(t.Context(), key, e); err != nil {
		t.Fatalf("record: %v", err)
	}
}

func wantEntry(t *testing.T, j journal.Journal, key string, want journal.Entry) {
	t.Helper()
	got, err := j.Lookup(t.Context(), key)
	if err != nil {
		t.Fatalf("lookup: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("entry (-want +got):\n%s", diff)
	}
}

func testLookupNothing(t *testing.T, o OpenedJournal) {
	_, err := o.Journal.Lookup(t.Context(), JournalKey("nothing"))
	wantError(t, "lookup", err, journal.ErrNotFound)
}

func testEntryRoundTrip(t *testing.T, o OpenedJournal) {
	for _, text := range []string{
		"A summary.", "要約。🦅 \"quoted\" <b>&amp;</b>\r\n\x00\u2028", strings.Repeat("eyrie ", 60_000),
	} {
		record(t, o.Journal, JournalKey(text), entryOf(text))
		wantEntry(t, o.second(), JournalKey(text), entryOf(text))
	}
}

func testFirstWins(t *testing.T, o OpenedJournal) {
	key := JournalKey("key")
	record(t, o.Journal, key, entryOf("first"))
	record(t, o.Journal, key, entryOf("second"))
	record(t, o.second(), key, entryOf("third"))
	wantEntry(t, o.Journal, key, entryOf("first"))
}

func testFirstWinsConcurrently(t *testing.T, o OpenedJournal) {
	key, other := JournalKey("key"), o.second()
	got := make([]journal.Entry, 16)
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() {
			j := []journal.Journal{o.Journal, other}[i%2]
			if err := j.Record(t.Context(), key, entryOf(fmt.Sprint(i))); err != nil {
				t.Errorf("record: %v", err)
				return
			}
			e, err := j.Lookup(t.Context(), key)
			if err != nil {
				t.Errorf("lookup: %v", err)
			}
			got[i] = e
		})
	}
	wait.Wait()
	for i := range got {
		if diff := cmp.Diff(got[0], got[i]); diff != "" {
			t.Errorf("writer %d read another entry than writer 0 (-0 +%d):\n%s", i, i, diff)
		}
	}
}

func testJournalKeys(t *testing.T, o OpenedJournal) {
	for _, key := range []string{"", "key", strings.Repeat("x", 64), strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a.", 32)} {
		if err := o.Journal.Record(t.Context(), key, entryOf("text")); err == nil {
			t.Errorf("record under key %q: got no error", key)
		}
		if _, err := o.Journal.Lookup(t.Context(), key); err == nil {
			t.Errorf("lookup of key %q: got no error", key)
		}
	}
}

func begin(t *testing.T, j journal.Journal, build string, task tree.ID, want journal.Attempts) {
	t.Helper()
	got, err := j.Begin(t.Context(), build, task)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	if got != want {
		t.Fatalf("begin: got %+v, want %+v", got, want)
	}
}

func end(t *testing.T, j journal.Journal, task tree.ID, failed bool, want journal.Attempts) {
	t.Helper()
	got, err := j.End(t.Context(), "build", task, failed)
	if err != nil {
		t.Fatalf("end: %v", err)
	}
	if got != want {
		t.Fatalf("end: got %+v, want %+v", got, want)
	}
}

func forget(t *testing.T, j journal.Journal, task tree.ID) {
	t.Helper()
	if err := j.Forget(t.Context(), "build", task); err != nil {
		t.Fatalf("forget: %v", err)
	}
}

func testAttempts(t *testing.T, o OpenedJournal) {
	task := Tasks("corpus", "build", 1, 1)[0].ID
	j, other := o.Journal, o.second()
	forget(t, j, task)
	begin(t, j, "build", task, journal.Attempts{Started: 1})
	end(t, other, task, true, journal.Attempts{Started: 1, Failed: 1})
	begin(t, other, "build", task, journal.Attempts{Started: 2, Failed: 1})
	end(t, j, task, false, journal.Attempts{Started: 2, Failed: 1, Returned: 1})
	begin(t, j, "build", task, journal.Attempts{Started: 3, Failed: 1, Returned: 1})
	forget(t, other, task)
	begin(t, j, "build", task, journal.Attempts{Started: 1})
	forget(t, j, task)
	forget(t, j, task)
	end(t, j, task, true, journal.Attempts{Failed: 1})
	begin(t, other, "build", task, journal.Attempts{Started: 1, Failed: 1})
}

func testAttemptsConcurrently(t *testing.T, o OpenedJournal) {
	task, other := Tasks("corpus", "build", 1, 1)[0].ID, o.second()
	started := make([]int, 16)
	var wait sync.WaitGroup
	for i := range started {
		wait.Go(func() {
			j := []journal.Journal{o.Journal, other}[i%2]
			a, err := j.Begin(t.Context(), "build", task)
			if err != nil {
				t.Errorf("begin: %v", err)
				return
			}
			started[i] = a.Started
			if _, err := j.End(t.Context(), "build", task, i%4 == 0); err != nil {
				t.Errorf("end: %v", err)
			}
		})
	}
	wait.Wait()
	slices.Sort(started)
	want := make([]int, len(started))
	for i := range want {
		want[i] = i + 1
	}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Errorf("starts that were counted (-want +got):\n%s", diff)
	}
	begin(t, o.Journal, "build", task, journal.Attempts{Started: 17, Failed: 4, Returned: 12})
}

func testAttemptsApart(t *testing.T, o OpenedJournal) {
	tasks := Tasks("corpus", "build", 1, 2)
	for _, build := range []string{"build", "build-2", "build.2", "build 2", "建"} {
		begin(t, o.Journal, build, tasks[0].ID, journal.Attempts{Started: 1})
		begin(t, o.Journal, build, tasks[1].ID, journal.Attempts{Started: 1})
	}
	forget(t, o.Journal, tasks[0].ID)
	begin(t, o.Journal, "build", tasks[1].ID, journal.Attempts{Started: 2})
	begin(t, o.Journal, "build.2", tasks[0].ID, journal.Attempts{Started: 2})
}

func testJournalContext(t *testing.T, o OpenedJournal) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	task := Tasks("corpus", "build", 1, 1)[0].ID
	_, err := o.Journal.Lookup(ctx, JournalKey("key"))
	wantError(t, "lookup", err, context.Canceled)
	wantError(t, "record", o.Journal.Record(ctx, JournalKey("key"), entryOf("text")), context.Canceled)
	_, err = o.Journal.Begin(ctx, "build", task)
	wantError(t, "begin", err, context.Canceled)
	_, err = o.Journal.End(ctx, "build", task, true)
	wantError(t, "end", err, context.Canceled)
	wantError(t, "forget", o.Journal.Forget(ctx, "build", task), context.Canceled)
}

func testJournalRestart(t *testing.T, o OpenedJournal) {
	tasks := Tasks("corpus", "build", 1, 2)
	for i := range 20 {
		record(t, o.Journal, JournalKey(fmt.Sprint(i)), entryOf(fmt.Sprint("text ", i)))
	}
	begin(t, o.Journal, "build", tasks[0].ID, journal.Attempts{Started: 1})
	begin(t, o.Journal, "build", tasks[1].ID, journal.Attempts{Started: 1})
	end(t, o.Journal, tasks[0].ID, true, journal.Attempts{Started: 1, Failed: 1})
	forget(t, o.Journal, tasks[1].ID)
	j := o.Restart()
	for i := range 20 {
		wantEntry(t, j, JournalKey(fmt.Sprint(i)), entryOf(fmt.Sprint("text ", i)))
		record(t, j, JournalKey(fmt.Sprint(i)), entryOf("another"))
		wantEntry(t, j, JournalKey(fmt.Sprint(i)), entryOf(fmt.Sprint("text ", i)))
	}
	begin(t, j, "build", tasks[0].ID, journal.Attempts{Started: 2, Failed: 1})
	begin(t, j, "build", tasks[1].ID, journal.Attempts{Started: 1})
}
