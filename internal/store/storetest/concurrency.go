package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

var concurrencyTests = []contractTest{
	{"WritersAndReaders", func(s *suite) {
		const writers, rounds, batch = 4, 10, 20
		errs := make(chan error, 2*writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { errs <- s.writeRounds(fmt.Sprintf("doc-%d", w), rounds, batch) })
			wg.Go(func() { errs <- s.readRounds(rounds) })
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				s.Error(err)
			}
		}
		s.same("count", s.count(store.AnyLevel()), writers*rounds*batch/2)
		s.same("documents", len(s.documents("")), writers)
		s.same("keyword hits", len(s.keyword("kept", 10_000, store.AnyLevel())), writers*rounds*batch/2)
		s.same("search hits", len(s.search(store.Query{Vector: vectorOf("x"), Limit: 10_000, Filter: store.AnyLevel()})), writers*rounds*batch/2)
	}},
	{"SamePutFromMany", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("leaf %d", 50) {
			nodes = append(nodes, s.leaf("d", i, text))
		}
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for w := range errs {
			wg.Go(func() {
				mine := slices.Clone(nodes)
				if w%2 == 1 {
					slices.Reverse(mine)
				}
				errs[w] = s.store.Put(inBackground(), s.corpus, mine)
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				s.Error(err)
			}
		}
		s.same("nodes", s.each(store.AnyLevel()), nodes)
		s.same("keyword hits", len(s.keyword("leaf", 100, store.AnyLevel())), len(nodes))
	}},
}

// writeRounds puts leaves and deletes every other one.
func (s *suite) writeRounds(document string, rounds, batch int) error {
	for r := range rounds {
		var nodes []tree.Node
		for i := range batch {
			nodes = append(nodes, s.leaf(document, r*batch+i, fmt.Sprintf("kept %s %d %d", document, r, i)))
		}
		if err := s.store.Put(inBackground(), s.corpus, nodes); err != nil {
			return fmt.Errorf("Put: %w", err)
		}
		if err := s.store.SetLife(inBackground(), s.corpus, idsOf(nodes[:batch/2]), 0, tree.Deleted); err != nil {
			return fmt.Errorf("SetLife: %w", err)
		}
		if err := s.store.Delete(inBackground(), s.corpus, idsOf(nodes[:batch/2])); err != nil {
			return fmt.Errorf("Delete: %w", err)
		}
	}
	return nil
}

// readRounds reads in every way, and checks that what is read holds together.
func (s *suite) readRounds(rounds int) error {
	for range rounds {
		hits, err := s.store.Search(inBackground(), s.corpus, store.Query{Vector: vectorOf("x"), Limit: 20, Filter: store.AnyLevel(), With: everything})
		if err != nil {
			return fmt.Errorf("Search: %w", err)
		}
		for _, h := range hits {
			if !slices.Equal(h.Node.Vector, vectorOf(h.Node.Text)) {
				return fmt.Errorf("Search: %q has another node's vector", h.Node.Text)
			}
		}
		if _, err := s.store.Keyword(inBackground(), s.corpus, store.Query{Text: "kept", Limit: 20, Filter: store.AnyLevel()}); err != nil {
			return fmt.Errorf("Keyword: %w", err)
		}
		seen := map[tree.ID]bool{}
		err = s.store.Each(inBackground(), s.corpus, store.AnyLevel(), everything, func(n *tree.Node) error {
			if seen[n.ID] {
				return fmt.Errorf("%s comes twice", n.ID)
			}
			seen[n.ID] = true
			return nil
		})
		if err != nil {
			return fmt.Errorf("Each: %w", err)
		}
	}
	return nil
}
