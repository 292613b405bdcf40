package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// treeOptions are the flags of aerie tree.
type treeOptions struct {
	depth, limit int
	root         string
	vectors      bool
}

// treeNode is one record of aerie tree --output jsonl.
type treeNode struct {
	ID          tree.ID   `json:"id"`
	Level       int       `json:"level"`
	ClusterID   string    `json:"cluster_id"`
	ChildIDs    []tree.ID `json:"child_ids"`
	ParentIDs   []tree.ID `json:"parent_ids"`
	DocumentIDs []string  `json:"document_ids"`
	Tokens      int       `json:"tokens"`
	NLeaves     int       `json:"n_leaves"`
	Born        int       `json:"born"`
	Text        string    `json:"text"`
	Vector      []float32 `json:"vector,omitempty"`
}

func (c *cli) treeCommand() *cobra.Command {
	var o treeOptions
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "Print the tree: an outline, or every node with --output jsonl",
		Args:  none,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.tree(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.depth, "depth", 2, "levels to show, from the top or from --root; 0: all")
	f.IntVar(&o.limit, "limit", 10, "nodes to show below each; 0: all")
	f.StringVar(&o.root, "root", "", "start at this node: an id, the start of one, or a cluster id such as L2-0f3c9a51")
	f.BoolVar(&o.vectors, "vectors", false, "add the vectors (json and jsonl)")
	keyflag.Add(f, c.flags, placeKeys)
	return cmd
}

func (c *cli) tree(ctx context.Context, o treeOptions) error {
	if o.depth < 0 {
		return usagef("", "--depth is %d; it must be 0 (all) or more", o.depth)
	}
	if o.limit < 0 {
		return usagef("", "--limit is %d; it must be 0 (all) or more", o.limit)
	}
	h, err := c.openExisting()
	if err != nil {
		return err
	}
	defer h.close()
	o.vectors = o.vectors && c.output != "table"
	v, err := h.readTree(ctx)
	if err != nil {
		return err
	}
	var root *shape
	if o.root != "" {
		if root, err = v.find(o.root); err != nil {
			return err
		}
	}
	if c.output == "table" {
		return c.outline(ctx, h.store(), v, root, o)
	}
	nodes := v.all
	if root != nil {
		nodes = v.under(root)
	}
	if c.output == "json" {
		return c.treeJSON(ctx, h.store(), v, nodes, o)
	}
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	return v.records(ctx, h.store(), nodes, o.vectors, func(n *treeNode) error { return e.Encode(n) })
}

// treeJSON writes one object, a node at a time, so that a large tree isn't held in memory as text.
func (c *cli) treeJSON(ctx context.Context, nodes store.Store, v *view, list []*shape, o treeOptions) error {
	head, err := json.Marshal(v.corpus)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, `{"corpus":%s,"generation":%d,"nodes":[`, head, v.generation)
	sep := "\n"
	err = v.records(ctx, nodes, list, o.vectors, func(n *treeNode) error {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(n); err != nil {
			return err
		}
		_, err := io.WriteString(c.out, sep+strings.TrimSpace(b.String()))
		sep = ",\n"
		return err
	})
	fmt.Fprint(c.out, "\n]}\n")
	return err
}

// shape is what of a node is held for the whole tree.
type shape struct {
	id                tree.ID
	level             int
	document          string
	index             int
	tokens, leaves    int
	children, parents []*shape
}

// view is the tree of one generation.
type view struct {
	corpus     string
	generation int
	all        []*shape // by (level, id)
	byID       map[tree.ID]*shape
}

// readTree reads the shape of the current generation's tree, without texts.
func (h *home) readTree(ctx context.Context) (*view, error) {
	record, err := h.record(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{corpus: record.Name, generation: record.Generation, byID: map[tree.ID]*shape{}}
	kids := map[*shape][]tree.ID{}
	filter := store.AnyLevel().VisibleAt(record.Generation)
	err = h.store().Each(ctx, record.Name, filter, store.Fields{}, func(n *tree.Node) error {
		s := &shape{id: n.ID, level: n.Level, document: n.DocumentID, index: n.ChunkIndex, tokens: n.Tokens, leaves: n.NLeaves}
		v.all = append(v.all, s)
		v.byID[n.ID] = s
		if n.Level > 0 {
			kids[s] = n.Children
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(v.all, func(a, b *shape) int {
		if a.level != b.level {
			return a.level - b.level
		}
		return a.id.Compare(b.id)
	})
	for _, s := range v.all {
		for _, id := range kids[s] {
			if child := v.byID[id]; child != nil {
				s.children = append(s.children, child)
				child.parents = append(child.parents, s)
			}
		}
	}
	return v, nil
}

// find looks a node up by what a person may type.
func (v *view) find(name string) (*shape, error) {
	var found []*shape
	for _, s := range v.all {
		n := tree.Node{ID: s.id, Level: s.level}
		if strings.EqualFold(n.ClusterID(), name) || strings.HasPrefix(s.id.String(), strings.ToLower(name)) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, failf(exitFailed, "aerie tree prints ids", "--root is %q; generation %d of %s has no such node", name, v.generation, v.corpus)
	}
	return nil, usagef("type more of it", "--root is %q; %s nodes start with that", name, count(len(found)))
}

// under returns a node and all below it, by (level, id).
func (v *view) under(root *shape) []*shape {
	in := map[*shape]bool{root: true}
	list := []*shape{root}
	for i := 0; i < len(list); i++ {
		for _, child := range list[i].children {
			if !in[child] {
				in[child] = true
				list = append(list, child)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(v.all), func(s *shape) bool { return !in[s] })
}

// records reads the texts of nodes, a page at a time, and hands each on. A node that is gone meanwhile is left out.
func (v *view) records(ctx context.Context, nodes store.Store, list []*shape, vectors bool, emit func(*treeNode) error) error {
	documents := documentsUnder{}
	for page := range slices.Chunk(list, 512) {
		ids := make([]tree.ID, len(page))
		for i, s := range page {
			ids[i] = s.id
		}
		read, err := nodes.Get(ctx, v.corpus, ids, store.Fields{Text: true, Vector: vectors})
		if err != nil {
			return err
		}
		for _, n := range read {
			s := v.byID[n.ID]
			record := treeNode{
				ID: n.ID, Level: n.Level, ClusterID: n.ClusterID(), ChildIDs: idsOf(s.children), ParentIDs: idsOf(s.parents),
				DocumentIDs: documents.of(s), Tokens: n.Tokens, NLeaves: n.NLeaves, Born: n.Born, Text: n.Text, Vector: n.Vector,
			}
			if err := emit(&record); err != nil {
				return err
			}
		}
	}
	return nil
}

func idsOf(list []*shape) []tree.ID {
	ids := make([]tree.ID, len(list))
	for i, s := range list {
		ids[i] = s.id
	}
	slices.SortFunc(ids, tree.ID.Compare)
	return ids
}

// documentsUnder remembers which documents stand under each summary.
type documentsUnder map[*shape][]string

func (d documentsUnder) of(s *shape) []string {
	if s.level == 0 {
		return []string{s.document}
	}
	if known, ok := d[s]; ok {
		return known
	}
	all := []string{}
	for _, child := range s.children {
		all = append(all, d.of(child)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	d[s] = all
	return all
}
