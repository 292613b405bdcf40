package retrievetest

import (
	"fmt"
	"testing"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// replacedText (Seeds 4): a summary above text of which its document has a newer version stays in search until more than build.stale of
// the tokens below it were replaced; above text that was deleted it is out at once.
func replacedText(s suite) {
	for name, c := range map[string]struct {
		stale    string // build.stale of the tree; "": as it was before trees noted it
		replaced int    // of ten leaves of equal length below the one summary, and twenty below the other
		deleted  int
		small    bool // the summary of ten is found
		large    bool
	}{
		"nothing":              {"0.2", 0, 0, true, true},
		"a tenth":              {"0.2", 1, 0, true, true},
		"a fifth":              {"0.2", 2, 0, true, true},
		"more than a fifth":    {"0.2", 3, 0, false, true},
		"more than that":       {"0.2", 7, 0, false, false},
		"one deleted":          {"0.2", 0, 1, false, false},
		"one of each":          {"0.2", 1, 1, false, false},
		"none may be replaced": {"0", 1, 0, false, false},
		"half may be":          {"0.5", 5, 0, true, true},
		"an old tree":          {"", 2, 0, true, true},
	} {
		s.Run(name, func(t *testing.T) {
			s := suite{T: t, store: s.store, corpus: s.corpus}
			record := Built(fmt.Sprintf("%s-%s-%d-%d", s.corpus, c.stale, c.replaced, c.deleted), tree.ScopeCorpus, true)
			record.Settings = &levels.Settings{Scope: tree.ScopeCorpus, KeepLeaves: true, All: map[string]string{}}
			if c.stale != "" {
				record.Settings.All["build.stale"] = c.stale
			}
			var leaves []tree.Node
			for i := range 20 {
				leaves = append(leaves, Leaf(fmt.Sprint("d", i), 0, fmt.Sprintf("heron %d waits", i), At(0.1)))
			}
			small := Summary("ten herons wait", At(0.9), leaves[:10]...)
			large := Summary("twenty herons wait", At(0.8), leaves...)
			w := New(s.T, s.store, record, append(leaves, small, large)...)
			for i := range c.replaced {
				n := leaves[i]
				n.Text, n.Metadata, n.Recipe, n.Died = "", nil, tree.Replaced, tree.Deleted
				if err := s.store.Put(s.Context(), record.Name, []tree.Node{n}); err != nil {
					s.Fatal(err)
				}
			}
			for i := range c.deleted {
				if err := s.store.Delete(s.Context(), record.Name, []tree.ID{leaves[9-i].ID}); err != nil {
					s.Fatal(err)
				}
			}
			w.Changed()
			req := w.Request("herons")
			req.Pack, req.Alpha = new(retrieve.Similarity), new(1.0)
			found := map[tree.ID]bool{}
			for _, h := range w.Retrieve(s.T, req).Hits {
				found[h.ID] = true
				if h.Level == 0 && h.Text == "" {
					s.Errorf("a leaf that was replaced is a hit: %+v", h)
				}
			}
			if found[small.ID] != c.small || found[large.ID] != c.large {
				s.Errorf("the summaries of ten and twenty are found: %v, %v; want %v, %v", found[small.ID], found[large.ID], c.small, c.large)
			}
			documents := 0
			if err := s.store.Documents(s.Context(), record.Name, "", func(store.Document) error { documents++; return nil }); err != nil {
				s.Fatal(err)
			}
			if want := len(leaves) - c.replaced - c.deleted; documents != want {
				s.Errorf("%d documents, want %d", documents, want)
			}
		})
	}
}
