package sqlite

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
)

// scratch opens a home with a table t(v).
func scratch(t *testing.T) *DB {
	t.Helper()
	db := open(t, t.TempDir(), Config{})
	if err := db.write(t.Context(), func(s *session) error { return s.exec("CREATE TABLE t (v INTEGER PRIMARY KEY)") }); err != nil {
		t.Fatal(err)
	}
	return db
}

func insert(v int) func(*session) error {
	return func(s *session) error { return s.exec("INSERT INTO t (v) VALUES (?)", v) }
}

func values(t *testing.T, db *DB) []int {
	t.Helper()
	var all []int
	err := db.read(context.Background(), func(s *session) error {
		return s.rows("SELECT v FROM t ORDER BY v", nil, func(scan func(...any) error) error {
			var v int
			err := scan(&v)
			all = append(all, v)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// blocked runs fn while a change is in progress: all that fn starts has arrived when the change ends, since arrived
// waits for that.
func blocked(t *testing.T, db *DB, fn func(arrived func(n int))) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := db.write(context.Background(), func(*session) error {
			close(begun)
			<-end
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	fn(func(n int) {
		for waiting := -1; waiting < n; {
			db.writer.mu.Lock()
			waiting = len(db.writer.waiting)
			db.writer.mu.Unlock()
		}
	})
	close(end)
	wg.Wait()
}

// Changes that arrive together are committed together, and a failure or a panic undoes the one that it happened in.
func TestChangesShareATransaction(t *testing.T) {
	db := scratch(t)
	own := errors.New("own")
	var errs [6]error
	var panicked any
	var order []int
	var wg sync.WaitGroup
	blocked(t, db, func(arrived func(int)) {
		for i, fn := range []func(*session) error{
			insert(0),
			func(s *session) error { return errors.Join(insert(100)(s), own) },
			insert(2),
			func(s *session) error { insert(101)(s); panic("own panic") },
			func(s *session) error { return errors.Join(insert(102)(s), insert(2)(s)) }, // 2 is there already
			insert(5),
		} {
			wg.Go(func() {
				defer func() {
					if r := recover(); r != nil {
						panicked = r
					}
				}()
				errs[i] = db.write(context.Background(), func(s *session) error {
					order = append(order, i)
					return fn(s)
				})
			})
			arrived(i + 1)
		}
	})
	wg.Wait()
	if d := cmp.Diff([]int{0, 1, 2, 3, 4, 5}, order); d != "" {
		t.Errorf("changes out of order:\n%s", d)
	}
	for i, err := range errs {
		if failed := err != nil; failed != (i == 1 || i == 4) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if !errors.Is(errs[1], own) || panicked != "own panic" {
		t.Errorf("error %v and panic %v, want those of the changes", errs[1], panicked)
	}
	if d := cmp.Diff([]int{0, 2, 5}, values(t, db)); d != "" {
		t.Error(d)
	}
}

// A change whose context ends while it waits is not made, whoever it waits behind.
func TestWaitingChangeIsWithdrawn(t *testing.T) {
	db := scratch(t)
	ctx, cancel := context.WithCancel(t.Context())
	var first, second error
	var wg sync.WaitGroup
	blocked(t, db, func(arrived func(int)) {
		wg.Go(func() { second = db.write(context.Background(), insert(2)) })
		arrived(1)
		done := make(chan struct{})
		go func() { first = db.write(ctx, insert(1)); close(done) }()
		arrived(2)
		cancel()
		<-done
	})
	wg.Wait()
	if !errors.Is(first, context.Canceled) || second != nil {
		t.Errorf("errors %v and %v, want context.Canceled and none", first, second)
	}
	if d := cmp.Diff([]int{2}, values(t, db)); d != "" {
		t.Error(d)
	}
}

// lockHome holds a home's write lock, as another process would, until the function that it returns is called.
func lockHome(t *testing.T, home string) (unlock func()) {
	t.Helper()
	other := open(t, home, Config{})
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		err := other.write(context.Background(), func(*session) error {
			close(begun)
			<-end
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	<-begun
	return sync.OnceFunc(func() { close(end); <-done })
}

func TestWaitForAnotherProcess(t *testing.T) {
	db := scratch(t)
	unlock := lockHome(t, db.home)
	errs := make(chan error, 20)
	for i := range cap(errs) {
		go func() { errs <- db.write(context.Background(), insert(i)) }()
	}
	for waiting := 0; waiting < cap(errs)-1; {
		db.writer.mu.Lock()
		waiting = len(db.writer.waiting)
		db.writer.mu.Unlock()
		if len(values(t, db)) != 0 { // readers don't wait
			t.Fatal("a change was made while another process held the lock")
		}
	}
	unlock()
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := len(values(t, db)); got != cap(errs) {
		t.Errorf("%d changes, want %d", got, cap(errs))
	}
}

// When the context of the one that leads ends, the others still get their turn.
func TestLeaderGivesUp(t *testing.T) {
	db := scratch(t)
	unlock := lockHome(t, db.home)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- db.write(ctx, insert(1)) }()
	for leading := false; !leading; { // it has taken its batch and waits for the lock
		db.writer.mu.Lock()
		leading = db.writer.leading && len(db.writer.waiting) == 0
		db.writer.mu.Unlock()
	}
	go func() { second <- db.write(context.Background(), insert(2)) }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v, want context.Canceled", err)
	}
	unlock()
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
	if d := cmp.Diff([]int{2}, values(t, db)); d != "" {
		t.Error(d)
	}
}

func TestLockTimeout(t *testing.T) {
	home := t.TempDir()
	db := open(t, home, Config{LockTimeout: 30 * time.Millisecond})
	unlock := lockHome(t, home)
	defer unlock()
	err := db.Builds().RequestStop(t.Context(), "c", "b", levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked})
	if err == nil || !strings.Contains(err.Error(), "another process has been writing for 30ms") {
		t.Errorf("error %v doesn't say who is in the way", err)
	}
	unlock()
	if err := db.Builds().RequestStop(t.Context(), "c", "b", levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked}); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestManyWritersOverTwoHandles(t *testing.T) {
	a := scratch(t)
	b := open(t, a.home, Config{})
	const n = 200
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			db := a
			if i%2 == 1 {
				db = b
			}
			errs[i] = db.write(context.Background(), func(s *session) error {
				var count int
				if _, err := s.row("SELECT count(*) FROM t", nil, &count); err != nil {
					return err
				}
				return insert(count)(s) // fails unless the count still holds
			})
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if got := len(values(t, a)); got != n {
		t.Errorf("%d rows, want %d", got, n)
	}
}
