package natsqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

// workQueue implements queue.Queue.
type workQueue struct{ conn *Conn }

// parallel bounds the control calls that one method has under way.
const parallel = 16

// Queued implements queue.Queue. The list is that of one moment for tasks that stay in the queue throughout.
func (q *workQueue) Queued(ctx context.Context, level tree.Level) ([]tree.ID, error) {
	subjects, err := q.conn.subjects(ctx, tasksStream, levelSubject(taskPrefix, level)+"*")
	if err != nil {
		return nil, fmt.Errorf("natsqueue: list tasks of build %s level %d: %w", level.Build, level.Level, err)
	}
	var ids []tree.ID
	for _, subject := range subjects {
		id, err := subjectID(subject)
		if err != nil {
			q.conn.cfg.Logger.Warn("queue: foreign message among the tasks", "subject", subject)
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Dead implements queue.Queue.
func (q *workQueue) Dead(ctx context.Context, corpus, build string) ([]queue.Buried, error) {
	list, err := q.dead(ctx, buildSubject(deadPrefix, corpus, build)+">")
	if err != nil {
		return nil, fmt.Errorf("natsqueue: list dead tasks of build %s: %w", build, err)
	}
	slices.SortFunc(list, func(a, b queue.Buried) int {
		return cmp.Or(cmp.Compare(a.Task.Level, b.Task.Level), cmp.Compare(a.Task.Position, b.Task.Position),
			a.Task.ID.Compare(b.Task.ID))
	})
	return list, nil
}

func (q *workQueue) dead(ctx context.Context, filter string) ([]queue.Buried, error) {
	subjects, err := q.conn.subjects(ctx, deadStream, filter)
	if err != nil {
		return nil, err
	}
	found := make([]*queue.Buried, len(subjects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, subject := range subjects {
		group.Go(func() error {
			msg, err := q.conn.message(ctx, deadStream, msgRequest{Last: subject})
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil // exhumed meanwhile
			}
			if err != nil {
				return err
			}
			found[i] = &queue.Buried{}
			if err := json.Unmarshal(msg.Data, found[i]); err != nil {
				return fmt.Errorf("%s: %w", subject, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var list []queue.Buried
	for _, b := range found {
		if b != nil {
			list = append(list, *b)
		}
	}
	return list, nil
}

// Exhume implements queue.Queue.
func (q *workQueue) Exhume(ctx context.Context, tasks []queue.Task) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range tasks {
		task := &tasks[i]
		group.Go(func() error {
			if err := checkTask(task); err != nil {
				return fmt.Errorf("natsqueue: exhume task %s: %w", task.ID, err)
			}
			if err := q.conn.purge(ctx, deadStream, subjectOf(deadPrefix, task)); err != nil {
				return fmt.Errorf("natsqueue: exhume task %s: %w", task.ID, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Withdraw implements queue.Queue.
func (q *workQueue) Withdraw(ctx context.Context, corpus, build string) error {
	err := errors.Join(checkName("corpus", corpus), checkName("build", build))
	if err == nil {
		err = q.conn.purge(ctx, tasksStream, buildSubject(taskPrefix, corpus, build)+">")
	}
	if err != nil {
		return fmt.Errorf("natsqueue: withdraw build %s: %w", build, err)
	}
	return nil
}

// Purge implements queue.Queue.
func (q *workQueue) Purge(ctx context.Context, corpus, build string) error {
	if err := q.Withdraw(ctx, corpus, build); err != nil {
		return err
	}
	if err := q.conn.purge(ctx, deadStream, buildSubject(deadPrefix, corpus, build)+">"); err != nil {
		return fmt.Errorf("natsqueue: purge build %s: %w", build, err)
	}
	return nil
}
