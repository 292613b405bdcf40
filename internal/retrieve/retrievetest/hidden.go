package retrievetest

import (
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// keepLeavesFalse (Seeds 2): where leaves are kept out of search, those without a summary above them stay in it: of documents that are
// too short for a tree, and newer than the build. All the others are out, whatever is asked for.
func keepLeavesFalse(s suite) {
	record := Built(s.corpus, tree.ScopeDocument, false)
	var nodes, long []tree.Node
	for i := range 300 { // nearer to the query than anything that is open
		long = append(long, Leaf("long", i, fmt.Sprintf("heron %d waits", i), At(0.95-float64(i)/1000)))
	}
	summary := Summary("many a heron waits", At(0.5), long[:150]...)
	other := Summary("another heron waits", At(0.4), long[150:]...)
	short := Leaf("short", 0, "a heron in a short document", At(0.3))
	added := Leaf("long", 300, "a heron that came later", At(0.2))
	nodes = append(append(nodes, long...), summary, other, short, added)
	w := New(s.T, s.store, record, nodes...)
	w.Changed()

	ids := func(nodes ...tree.Node) []tree.ID {
		out := make([]tree.ID, len(nodes))
		for i := range nodes {
			out[i] = nodes[i].ID
		}
		return out
	}
	all := Shapes()["collapsed"]
	for name, c := range map[string]struct {
		change func(*retrieve.Options)
		want   []tree.ID
	}{
		"by vector":        {func(o *retrieve.Options) { o.Alpha = new(1.0) }, ids(summary, other, short, added)},
		"by words":         {func(o *retrieve.Options) { o.Alpha = new(0.0) }, ids(summary, other, short, added)},
		"leaves":           {func(o *retrieve.Options) { o.Alpha, o.MaxLevel = new(1.0), new(0) }, ids(short, added)},
		"one document":     {func(o *retrieve.Options) { o.Alpha, o.Documents = new(1.0), []string{"short"} }, ids(short)},
		"summaries":        {func(o *retrieve.Options) { o.Alpha, o.MinLevel = new(1.0), new(1) }, ids(summary, other)},
		"from the top":     {func(o *retrieve.Options) { o.Mode = new(retrieve.Traversal) }, ids(summary, other, short, added)},
		"few at a time":    {func(o *retrieve.Options) { o.Alpha, o.TopK, o.Pool = new(1.0), new(3), new(3) }, ids(summary, other, short)},
		"leaves, from top": {func(o *retrieve.Options) { o.Mode, o.LeavesOnly = new(retrieve.Traversal), new(true) }, ids(short, added)},
	} {
		req := w.Request("heron")
		all(&req.Options)
		req.Pack, req.Budget = new(retrieve.Similarity), new(0)
		c.change(&req.Options)
		got := Found(w.Retrieve(s.T, req).Hits)
		slices.SortFunc(got, tree.ID.Compare)
		slices.SortFunc(c.want, tree.ID.Compare)
		s.same(name, c.want, got)
	}
	n, err := w.Retriever().Hidden(s.Context(), &w.Record)
	if err != nil || n != len(long) {
		s.Errorf("%d leaves are hidden, %v; want %d", n, err, len(long))
	}
}
