package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

// lineBytes is about how much of a summary an outline shows.
const lineBytes = 240

// outline shows a tree from the top down, as much of it as there is room for: what is higher first, what is larger before what is
// smaller.
func (s *Server) outline(ctx context.Context, a arguments) (*sdk.CallToolResult, error) {
	corpus, p := a.texts["corpus"], newPage(a)
	o := outlined{nodes: map[tree.ID]*api.Node{}, shown: map[tree.ID]bool{}}
	req := api.TreeRequest{Corpus: corpus, Root: a.texts["id"], Depth: a.number("depth", 2), Text: true}
	var head api.TreeHead
	err := s.service.Nodes(ctx, req, func(h api.TreeHead) error { head = h; return nil }, o.add)
	if err != nil {
		return nil, err
	}
	if len(o.order) == 0 {
		p.fits("corpus %s, generation %d, has no summaries", corpus, head.Generation)
		return p.result("\n\nNext: search finds its passages."), nil
	}
	o.choose(p.most)
	fmt.Fprintf(&p.b, "corpus %s, generation %d\n", corpus, head.Generation)
	left := o.render(&p.b)
	next := "\nNext: outline with the id of a summary goes deeper; fetch reads one whole."
	if left > 0 {
		next = fmt.Sprintf("\n%d more didn't fit.%s", left, next)
	}
	return p.result(next), nil
}

// outlined is what an outline is made of.
type outlined struct {
	nodes map[tree.ID]*api.Node
	order []*api.Node // highest level first, on it the largest
	shown map[tree.ID]bool
}

// add keeps a summary; passages are for search.
func (o *outlined) add(n *api.Node) error {
	if n.Level == 0 {
		return nil
	}
	kept := *n
	kept.Text = lineOf(n.Text)
	o.nodes[n.ID] = &kept
	o.order = append(o.order, &kept)
	return nil
}

// lineOf is the beginning of a text on one line.
func lineOf(text string) string {
	var b strings.Builder
	for _, word := range strings.Fields(text) {
		if b.Len()+len(word) > lineBytes {
			return b.String() + "…"
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

func (o *outlined) line(n *api.Node) string {
	return fmt.Sprintf("- %s (%d passages): %s\n", n.ClusterID, n.NLeaves, n.Text)
}

// before is the order in which nodes are worth their room.
func before(a, b *api.Node) int {
	return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(b.NLeaves, a.NLeaves), a.ID.Compare(b.ID))
}

// choose marks what there is room for.
func (o *outlined) choose(most int) {
	slices.SortFunc(o.order, before)
	const indent = 2
	top := o.order[0].Level
	for i, n := range o.order {
		most -= len(o.line(n)) + indent*(top-n.Level)
		if most < 0 && i > 0 {
			return
		}
		o.shown[n.ID] = true
	}
}

// render writes what was chosen, each below its first parent, and returns how many were not.
func (o *outlined) render(b *strings.Builder) (left int) {
	written := map[tree.ID]bool{}
	var walk func(n *api.Node, depth int)
	walk = func(n *api.Node, depth int) {
		if written[n.ID] || !o.shown[n.ID] {
			return
		}
		written[n.ID] = true
		b.WriteString(strings.Repeat("  ", depth) + o.line(n))
		var children []*api.Node
		for _, id := range n.ChildIDs {
			if o.shown[id] {
				children = append(children, o.nodes[id])
			}
		}
		for _, child := range slices.SortedFunc(slices.Values(children), before) {
			walk(child, depth+1)
		}
	}
	for _, n := range o.order {
		walk(n, 0)
	}
	return len(o.order) - len(written)
}
