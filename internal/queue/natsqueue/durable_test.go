package natsqueue

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
)

// TestAnswersAreInTheFlushedFiles: when Record returns, the answer stands in a file that was flushed after it had
// been written. A server version that lays its files out otherwise fails here.
func TestAnswersAreInTheFlushedFiles(t *testing.T) {
	t.Parallel()
	c := embedded(t, t.TempDir())
	flushed := map[string][]byte{}
	c.files.sync = func(path string) error { // one call at a time
		if b, err := os.ReadFile(path); err == nil {
			flushed[path] = b
		}
		return nil
	}
	for _, text := range []string{"the first answer", "the second answer"} {
		if err := c.Journal().Record(t.Context(), queuetest.JournalKey(text), journal.Entry{Text: text}); err != nil {
			t.Fatal(err)
		}
		wantFlushed(t, flushed, text)
	}
	plan := planOf("c", "b", 1, 2)
	clear(flushed)
	putPlan(t, c, plan)
	wantFlushed(t, flushed, "$O."+plansBucket+".M.")
	wantFlushed(t, flushed, "$O."+plansBucket+".C.")
}

func wantFlushed(t *testing.T, flushed map[string][]byte, text string) {
	t.Helper()
	for _, content := range flushed {
		if bytes.Contains(content, []byte(text)) {
			return
		}
	}
	t.Errorf("%q is in none of the %d files that were flushed", text, len(flushed))
}

// TestFlushTouchesWhatChanged: a flush costs one call when nothing else was written.
func TestFlushTouchesWhatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "S", "msgs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	var synced []string
	f := newFlusher(dir)
	f.sync = func(path string) error {
		synced = append(synced, filepath.Base(path))
		return nil
	}
	flush := func(want ...string) {
		t.Helper()
		synced = nil
		if err := f.flush("S"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, synced); diff != "" {
			t.Errorf("synced (-want +got):\n%s", diff)
		}
	}
	if err := f.flush("S"); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("flush of a folder without blocks: got error %v, want one that names it", err)
	}
	write(t, folder, "1.blk", "a")
	write(t, folder, "index.db", "x")
	flush("1.blk", "msgs")
	flush()
	write(t, folder, "1.blk", "b")
	flush("1.blk")
	write(t, folder, "2.blk", "c")
	flush("2.blk", "msgs")
	if err := os.Remove(filepath.Join(folder, "1.blk")); err != nil {
		t.Fatal(err)
	}
	flush()
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestFlushesAreShared: callers that come while a flush runs wait for the next one, all for the same. One that came
// too late for the running round must not be told that it is through.
func TestFlushesAreShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "S", "msgs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "1.blk", "a")
	begun, proceed := make(chan struct{}), make(chan struct{})
	var rounds []string // what each round found
	f := newFlusher(dir)
	f.sync = func(path string) error {
		if filepath.Ext(path) != ".blk" {
			return nil
		}
		begun <- struct{}{}
		<-proceed
		b, err := os.ReadFile(path)
		rounds = append(rounds, string(b))
		return err
	}
	var callers sync.WaitGroup
	flush := func() {
		callers.Go(func() {
			if err := f.flush("S"); err != nil {
				t.Error(err)
			}
		})
	}
	flush()
	<-begun
	write(t, folder, "1.blk", "b")
	for range 5 {
		flush()
	}
	proceed <- struct{}{}
	<-begun
	proceed <- struct{}{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		callers.Wait()
	}()
	for { // a caller that came late starts a round of its own, which finds nothing to do
		select {
		case <-begun:
			proceed <- struct{}{}
			continue
		case <-done:
		}
		break
	}
	if len(rounds) != 2 || !slices.Contains(rounds, "ab") {
		t.Errorf("rounds saw %q, want two, the last with everything", rounds)
	}
}

// TestFlushAllReachesEverything: files and the folders that name them.
func TestFlushAllReachesEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, folder := range []string{"S/msgs", "S/obs/workers"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "S/meta.inf", "a")
	write(t, dir, "S/obs/workers/meta.inf", "b")
	var synced []string
	f := newFlusher(dir)
	f.sync = func(path string) error {
		relative, err := filepath.Rel(dir, path)
		synced = append(synced, filepath.ToSlash(relative))
		return errors.Join(err, syncFile(path))
	}
	if err := f.flushAll(); err != nil {
		t.Fatal(err)
	}
	want := []string{".", "S", "S/meta.inf", "S/msgs", "S/obs", "S/obs/workers", "S/obs/workers/meta.inf"}
	if diff := cmp.Diff(want, synced); diff != "" {
		t.Errorf("flushed (-want +got):\n%s", diff)
	}
}
