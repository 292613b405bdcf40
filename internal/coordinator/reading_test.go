package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/queue"
)

// hanging is a place of records that answers nothing until ctx ends; err, if not nil, is its answer instead.
type hanging struct {
	levels.Corpora
	err error
}

func (h hanging) wait(ctx context.Context) error {
	if h.err != nil {
		return h.err
	}
	<-ctx.Done()
	return ctx.Err()
}
func (h hanging) Load(ctx context.Context, _ string) (*levels.Corpus, error) { return nil, h.wait(ctx) }
func (h hanging) List(ctx context.Context) ([]string, error)                 { return nil, h.wait(ctx) }

// noCopies is a place of copies that is away.
type noCopies struct{ levels.Plans }

func (noCopies) Tree(ctx context.Context, _ string) (*levels.Corpus, error) {
	<-ctx.Done()
	return nil, queue.ErrUnavailable
}
func (noCopies) Trees(ctx context.Context) ([]string, error) {
	<-ctx.Done()
	return nil, queue.ErrUnavailable
}

// TestA26RecordsWithoutTheirPlace: a query gets its record from the state or from the copy, whichever is there, without waiting for
// the other for long.
func TestA26RecordsWithoutTheirPlace(t *testing.T) {
	for name, c := range map[string]struct {
		state  func(*leveltest.Memory) levels.Corpora
		copies func(*leveltest.Memory) levels.Plans
		err    error
	}{
		"both":               {func(m *leveltest.Memory) levels.Corpora { return m.Corpora() }, func(m *leveltest.Memory) levels.Plans { return m }, nil},
		"state away":         {func(*leveltest.Memory) levels.Corpora { return hanging{err: levels.ErrUnavailable} }, func(m *leveltest.Memory) levels.Plans { return m }, nil},
		"state says nothing": {func(*leveltest.Memory) levels.Corpora { return hanging{} }, func(m *leveltest.Memory) levels.Plans { return m }, nil},
		"copies away":        {func(m *leveltest.Memory) levels.Corpora { return m.Corpora() }, func(*leveltest.Memory) levels.Plans { return noCopies{} }, nil},
		"neither":            {func(*leveltest.Memory) levels.Corpora { return hanging{} }, func(*leveltest.Memory) levels.Plans { return noCopies{} }, levels.ErrUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := leveltest.NewMemory()
			want := levels.Corpus{Name: "c", Embedder: "e", Width: 3, Generation: 7}
			err := m.Corpora().Update(t.Context(), "c", func(r *levels.Corpus) error { *r = want; return nil })
			if err == nil {
				err = m.PutTree(t.Context(), &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := &coordinator.ReadingCorpora{Corpora: c.state(m), Plans: c.copies(m)}
			for range 2 {
				begun := time.Now()
				got, err := r.Load(t.Context(), "c")
				if !errors.Is(err, c.err) || err == nil && got.Generation != 7 {
					t.Errorf("%s: %+v, %v", name, got, err)
				}
				names, err := r.List(t.Context())
				if !errors.Is(err, c.err) || err == nil && !slices.Equal(names, []string{"c"}) {
					t.Errorf("%s: names %q, %v", name, names, err)
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("%s: it took %v", name, took)
				}
			}
		})
	}
}
