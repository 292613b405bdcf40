package coordinator

import (
	"context"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

const (
	// searchedUnder is how many leaves below one summary are searched for its sentences, and searchedAll below all of a level.
	searchedUnder = 4000
	searchedAll   = 50_000
)

// claim is a summary of the tree before of which something is gone, with those of its sentences that were found nowhere yet.
type claim struct {
	slot     tree.ID
	children []tree.ID
	under    []int32
	open     []string
	found    bool // at least one was
	lacks    bool // nodes that it was looked for in, because they are only foreseen
}

// clean returns the slots from below which something is gone and whose texts hold nothing of it: each of their sentences stands, word
// for word, in what is below them now. A summarizer that chooses sentences writes such texts. Of others that can't be known, and they
// are made again.
//
// A text of a level below holds nothing that is gone, because this was decided there; so a sentence that stands in one is as good as
// one of a leaf.
func (c *Coordinator) clean(ctx context.Context, p *past, from *below, clusters []levels.Cluster) (map[tree.ID]bool, error) {
	var claims []*claim
	for i := range clusters {
		under := union(from.under, clusters[i].Children)
		if old, _, gone := p.carriable(&clusters[i], under); old != nil && gone {
			claims = append(claims, &claim{slot: old.id, children: clusters[i].Children, under: under})
		}
	}
	out := map[tree.ID]bool{}
	for some := range slices.Chunk(claims, page/10) {
		if err := c.readClaims(ctx, some); err != nil {
			return nil, err
		}
	}
	searched := 0
	for _, one := range claims {
		if err := c.search(ctx, one, one.children); err != nil {
			return nil, err
		}
		// One that says nothing in the words of its children is some model's own: its leaves aren't worth a look.
		if n := len(one.under); len(one.open) > 0 && (one.found || one.lacks) && n <= searchedUnder && searched+n <= searchedAll {
			searched += n
			leaves := make([]tree.ID, n)
			for i, number := range one.under {
				leaves[i] = p.leaves.ids[number]
			}
			if err := c.search(ctx, one, leaves); err != nil {
				return nil, err
			}
		}
		out[one.slot] = one.found && len(one.open) == 0
	}
	return out, nil
}

// readClaims reads the sentences of the summaries.
func (c *Coordinator) readClaims(ctx context.Context, claims []*claim) error {
	of := make(map[tree.ID][]*claim, len(claims))
	ids := make([]tree.ID, len(claims))
	for i, one := range claims {
		ids[i] = one.slot
		of[one.slot] = append(of[one.slot], one)
	}
	nodes, err := c.deps.Store.Get(ctx, c.cfg.Corpus, ids, store.Fields{Text: true})
	if err != nil {
		return err
	}
	for i := range nodes {
		for _, one := range of[nodes[i].ID] {
			for _, s := range mapreduce.Sentences(nodes[i].Text) {
				if s = evenly(s); s != "" {
					one.open = append(one.open, s)
				}
			}
		}
	}
	return nil
}

// search crosses out the sentences that stand in one of the nodes.
func (c *Coordinator) search(ctx context.Context, one *claim, ids []tree.ID) error {
	for some := range slices.Chunk(ids, page) {
		if len(one.open) == 0 {
			return nil
		}
		nodes, err := c.deps.Store.Get(ctx, c.cfg.Corpus, some, store.Fields{Text: true})
		if err != nil {
			return err
		}
		one.lacks = one.lacks || len(nodes) < len(some)
		for i := range nodes {
			text := evenly(nodes[i].Text)
			one.open = slices.DeleteFunc(one.open, func(s string) bool {
				in := strings.Contains(text, s)
				one.found = one.found || in
				return in
			})
		}
	}
	return nil
}

// evenly returns a text with single spaces.
func evenly(text string) string { return strings.Join(strings.Fields(text), " ") }
