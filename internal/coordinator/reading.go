package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// ReadingCorpora reads the records of a fleet for whoever answers a person: from the state or, while that is away, from the copies
// beside the plans. It waits for neither for long, and of the two one is enough. It changes nothing: a record that is lost stays so.
type ReadingCorpora struct {
	Corpora levels.Corpora
	Plans   levels.Plans

	mu   sync.Mutex
	away time.Time // when the state was found away last
}

const (
	// readingWait is how long a reader waits for one of the two places.
	readingWait = 1500 * time.Millisecond
	// awayFor is for how long a state that was found away isn't asked again.
	awayFor = 5 * time.Second
)

var _ levels.Corpora = (*ReadingCorpora)(nil)

// fromState asks the state, unless it was away a moment ago.
func (r *ReadingCorpora) fromState(ctx context.Context, ask func(context.Context) error) error {
	r.mu.Lock()
	lately := time.Since(r.away) < awayFor
	r.mu.Unlock()
	if lately {
		return levels.ErrUnavailable
	}
	bounded, cancel := context.WithTimeout(ctx, readingWait)
	defer cancel()
	err := ask(bounded)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && (errors.Is(err, levels.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)) {
		r.mu.Lock()
		r.away = time.Now()
		r.mu.Unlock()
		return fmt.Errorf("%w: %w", levels.ErrUnavailable, err)
	}
	return err
}

// Load implements [levels.Corpora].
func (r *ReadingCorpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	var record *levels.Corpus
	err := r.fromState(ctx, func(ctx context.Context) (err error) {
		record, err = r.Corpora.Load(ctx, name)
		return err
	})
	if err == nil || !errors.Is(err, levels.ErrUnavailable) && !errors.Is(err, levels.ErrNotFound) {
		return record, err
	}
	bounded, cancel := context.WithTimeout(ctx, readingWait)
	defer cancel()
	saved, copyErr := r.Plans.Tree(bounded, name)
	switch {
	case copyErr == nil:
		return saved, nil
	case errors.Is(copyErr, levels.ErrNotFound) && errors.Is(err, levels.ErrUnavailable):
		return nil, copyErr // the copy is made with the record
	}
	return nil, err
}

// Update implements [levels.Corpora]: nothing is changed here.
func (r *ReadingCorpora) Update(context.Context, string, func(*levels.Corpus) error) error {
	return errors.New("coordinator: records are only read here")
}

// List implements [levels.Corpora].
func (r *ReadingCorpora) List(ctx context.Context) ([]string, error) {
	var names []string
	err := r.fromState(ctx, func(ctx context.Context) (err error) {
		names, err = r.Corpora.List(ctx)
		return err
	})
	if err != nil && !errors.Is(err, levels.ErrUnavailable) {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, readingWait)
	defer cancel()
	copies, copyErr := r.Plans.Trees(bounded)
	if copyErr != nil {
		return names, err // what the state has is all that is known
	}
	all := append(names, copies...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Drop implements [levels.Corpora]: nothing is changed here.
func (r *ReadingCorpora) Drop(context.Context, string) error {
	return errors.New("coordinator: records are only read here")
}
