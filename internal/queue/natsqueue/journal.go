package natsqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/tree"
)

// journal implements llm.Journal.
type journal struct{ conn *Conn }

func (j *journal) entries() bucket {
	return bucket{conn: j.conn, stream: journalStream, prefix: journalPrefix}
}

func (j *journal) attempts() bucket {
	return bucket{conn: j.conn, stream: attemptsStream, prefix: attemptsPrefix}
}

// Lookup implements llm.Journal.
func (j *journal) Lookup(ctx context.Context, key string) (llm.Entry, error) {
	var e llm.Entry
	found, err := false, checkKey(key)
	if err == nil {
		_, found, err = j.entries().getJSON(ctx, key, &e)
	}
	if err == nil && !found {
		err = llm.ErrNotFound
	}
	if err != nil {
		return llm.Entry{}, fmt.Errorf("natsqueue: look up journal key %.12s: %w", key, err)
	}
	return e, nil
}

// Record implements llm.Journal.
func (j *journal) Record(ctx context.Context, key string, e llm.Entry) error {
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

func (j *journal) record(ctx context.Context, key string, e llm.Entry) error {
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
		// There is an answer already, or a marker of one that was removed by hand: only then is there more to do.
		var present []byte
		if present, revision, err = j.entries().get(ctx, key); err != nil || present != nil {
			return err
		}
	}
}

// Begin implements llm.Journal.
func (j *journal) Begin(ctx context.Context, build string, task tree.ID) (llm.Attempts, error) {
	a, err := j.count(ctx, build, task, func(a *llm.Attempts) { a.Started++ })
	if err != nil {
		return llm.Attempts{}, fmt.Errorf("natsqueue: begin task %s: %w", task, err)
	}
	return a, nil
}

// End implements llm.Journal.
func (j *journal) End(ctx context.Context, build string, task tree.ID, failed bool) (llm.Attempts, error) {
	a, err := j.count(ctx, build, task, func(a *llm.Attempts) {
		if failed {
			a.Failed++
		} else {
			a.Returned++
		}
	})
	if err != nil {
		return llm.Attempts{}, fmt.Errorf("natsqueue: end task %s: %w", task, err)
	}
	return a, nil
}

// Forget implements llm.Journal.
func (j *journal) Forget(ctx context.Context, build string, task tree.ID) error {
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
func (j *journal) count(ctx context.Context, build string, task tree.ID, change func(*llm.Attempts)) (llm.Attempts, error) {
	if err := checkName("build", build); err != nil {
		return llm.Attempts{}, err
	}
	key := attemptsKey(build, task)
	for {
		var a llm.Attempts
		revision, _, err := j.attempts().getJSON(ctx, key, &a)
		if err != nil {
			return llm.Attempts{}, err
		}
		change(&a)
		value, err := json.Marshal(a)
		if err != nil {
			return llm.Attempts{}, err
		}
		if err = j.attempts().put(ctx, key, value, revision); err == nil {
			return a, nil
		}
		if !errors.Is(err, errConflict) {
			return llm.Attempts{}, err
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
