package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// readers read a corpus throughout, and check that what they see is of one generation, and all of it.
type readers struct {
	fleet  *fleet
	corpus string
	want   []nodes // of generations 1 and on

	mu             sync.Mutex
	trees, queries int
	wrong          error
}

func newReaders(f *fleet, corpus string, want []nodes) *readers {
	return &readers{fleet: f, corpus: corpus, want: want}
}

// note counts a reading. One that is wrong stays noted.
func (r *readers) note(count *int, wrong error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*count++
	if wrong != nil && r.wrong == nil {
		r.wrong = wrong
	}
}

// each lets every coordinator answer in turn until ctx ends. Failures are none: coordinators are killed all the time.
func (r *readers) each(ctx context.Context, read func(*client.Client)) {
	for ctx.Err() == nil {
		for _, c := range r.fleet.clients {
			read(c)
		}
	}
}

// readTrees reads whole trees: the summaries must be those of the generation that the answer says, all of them.
func (r *readers) readTrees(ctx context.Context) {
	r.each(ctx, func(c *client.Client) {
		generation, seen := 0, map[tree.ID]string{}
		err := c.Nodes(ctx, api.TreeRequest{Corpus: r.corpus}, func(h api.TreeHead) error { generation = h.Generation; return nil }, func(n *api.Node) error {
			if n.Level > 0 {
				seen[n.ID] = ""
			}
			return nil
		})
		if err != nil {
			return
		}
		want := map[tree.ID]string{}
		if generation > 0 {
			for id := range r.want[generation-1].summaries {
				want[id] = ""
			}
		}
		if err := differences("summary", seen, want, false); err != nil {
			err = fmt.Errorf("a reader at generation %d: %w", generation, err)
			r.note(&r.trees, err)
			return
		}
		r.note(&r.trees, nil)
	})
}

// query asks for summaries: those that are found must all be of one generation.
func (r *readers) query(ctx context.Context, question string) {
	q := api.Query{Query: question, Options: retrieve.Options{Mode: new(retrieve.Filter), MinLevel: new(1), Budget: new(0)}}
	r.each(ctx, func(c *client.Client) {
		found, err := c.Query(ctx, r.corpus, q)
		if err != nil {
			return
		}
		ids := map[tree.ID]bool{}
		for _, hit := range found.Hits {
			ids[hit.ID] = true
		}
		r.note(&r.queries, r.ofOneGeneration(ids))
	})
}

func (r *readers) ofOneGeneration(ids map[tree.ID]bool) error {
	if len(ids) == 0 {
		return nil
	}
	for _, generation := range r.want {
		all := true
		for id := range ids {
			if _, ok := generation.summaries[id]; !ok {
				all = false
			}
		}
		if all {
			return nil
		}
	}
	return fmt.Errorf("a query found %d summaries that are in no generation together", len(ids))
}

func levelOf(corpus, build string, level int) tree.Level {
	return tree.Level{Corpus: corpus, Build: build, Level: level}
}
