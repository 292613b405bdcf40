package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/tree"
)

// journal implements journal.Journal.
type paidAnswers struct{ conn *Conn }

func (j *paidAnswers) entries() bucket {
	return bucket{conn: j.conn, stream: journalStream, prefix: journalPrefix}
}

func (j *paidAnswers) attempts() bucket {
	return bucket{conn: j.conn, stream: attemptsStream, prefix: attemptsPrefix}
}

// Lookup implements journal.Journal.
func (j *paidAnswers) Lookup(ctx context.Context, key string) (journal.Entry, error) {
	var e journal.Entry
	found, err := false, checkKey(key)
	if err == nil {
		_, found, err = j.entries().getJSON(ctx, key, &e)
	}
	if err == nil && (!found || e.Text == "") {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.Entry{}, fmt.Errorf("natsqueue: look up journal key %.12s: %w", key, err)
	}
	return e, nil
}

// Record implements journal.Journal.
func (j *paidAnswers) Record(ctx context.Context, key string, e journal.Entry) error {
	err := checkKey(key)
	if err == nil {
		err = j.record(ctx, key, e)
	}
	if err == nil {
		err = j.conn.flush(journalStream)
	}
	if err != nil {
		return fmt.Errorf("natsqueue: record journal key %.12s: %w", key, err)
	}
	return nil
}

func (j *paidAnswers) record(ctx context.Context, key string, e journal.Entry) error {
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	revision := uint64(0)
	for {
		err := j.entries().put(ctx, key, value, revision)
		if !errors.Is(err, errConflict) {
			return err
		}
		// There is an answer already; or a marker of one that was removed by hand, or one that was erased: only then is there more to do.
		var present journal.Entry
		if revision, _, err = j.entries().getJSON(ctx, key, &present); err != nil || present.Text != "" {
			return err
		}
	}
}

// Erase implements journal.Journal.
func (j *paidAnswers) Erase(ctx context.Context, corpus string) (int, error) {
	subjects, err := j.conn.subjects(ctx, journalStream, journalPrefix+">")
	if err != nil {
		return 0, fmt.Errorf("natsqueue: erase the answers of corpus %s: %w", corpus, err)
	}
	var erased atomic.Int64
	group, erasing := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, subject := range subjects {
		group.Go(func() error {
			done, err := j.erase(erasing, strings.TrimPrefix(subject, journalPrefix), corpus)
			if done {
				erased.Add(1)
			}
			return err
		})
	}
	err = group.Wait()
	if err == nil {
		err = j.conn.flush(journalStream)
	}
	if err != nil {
		return int(erased.Load()), fmt.Errorf("natsqueue: erase the answers of corpus %s: %w", corpus, err)
	}
	return int(erased.Load()), nil
}

// erase takes the text out of one answer if it is of the corpus.
func (j *paidAnswers) erase(ctx context.Context, key, corpus string) (bool, error) {
	for {
		var e journal.Entry
		revision, found, err := j.entries().getJSON(ctx, key, &e)
		if err != nil || !found || e.Text == "" || e.Corpus != corpus && e.Corpus != "" {
			return false, err
		}
		e.Text = ""
		value, err := json.Marshal(e)
		if err != nil {
			return false, err
		}
		if err := j.entries().put(ctx, key, value, revision); !errors.Is(err, errConflict) {
			return err == nil, err
		}
	}
}

// Begin implements journal.Journal.
func (j *paidAnswers) Begin(ctx context.Context, build string, task tree.ID) (journal.Attempts, error) {
	a, err := j.count(ctx, build, task, func(a *journal.Attempts) { a.Started++ })
	if err != nil {
		return journal.Attempts{}, fmt.Errorf("natsqueue: begin task %s: %w", task, err)
	}
	return a, nil
}

// End implements journal.Journal.
func (j *paidAnswers) End(ctx context.Context, build string, task tree.ID, failed bool) (journal.Attempts, error) {
	a, err := j.count(ctx, build, task, func(a *journal.Attempts) {
		if failed {
			a.Failed++
		} else {
			a.Returned++
		}
	})
	if err != nil {
		return journal.Attempts{}, fmt.Errorf("natsqueue: end task %s: %w", task, err)
	}
	return a, nil
}

// Forget implements journal.Journal.
func (j *paidAnswers) Forget(ctx context.Context, build string, task tree.ID) error {
	err := checkName("build", build)
	if err == nil {
		err = j.attempts().remove(ctx, attemptsKey(build, task))
	}
	if err != nil {
		return fmt.Errorf("natsqueue: forget task %s: %w", task, err)
	}
	return nil
}

// count changes a task's counts by compare and set, again until nobody else was faster.
func (j *paidAnswers) count(ctx context.Context, build string, task tree.ID, change func(*journal.Attempts)) (journal.Attempts, error) {
	if err := checkName("build", build); err != nil {
		return journal.Attempts{}, err
	}
	key := attemptsKey(build, task)
	for {
		var a journal.Attempts
		revision, _, err := j.attempts().getJSON(ctx, key, &a)
		if err != nil {
			return journal.Attempts{}, err
		}
		change(&a)
		value, err := json.Marshal(a)
		if err != nil {
			return journal.Attempts{}, err
		}
		if err = j.attempts().put(ctx, key, value, revision); err == nil {
			return a, nil
		}
		if !errors.Is(err, errConflict) {
			return journal.Attempts{}, err
		}
	}
}

func attemptsKey(build string, task tree.ID) string { return token(build) + "." + task.String() }

func checkKey(key string) error {
	valid := len(key) == 64
	for _, c := range []byte(key) {
		valid = valid && (c >= '0' && c <= '9' || c >= 'a' && c <= 'f')
	}
	if !valid {
		return fmt.Errorf("%q is not 64 lower-case hexadecimal digits", key)
	}
	return nil
}
