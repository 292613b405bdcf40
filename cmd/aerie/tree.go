package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/tree"
)

// treeOptions are the flags of aerie tree.
type treeOptions struct {
	depth, limit int
	root         string
	vectors      bool
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
	h, err := c.openReading()
	if err != nil {
		return err
	}
	defer h.close()
	if c.output == "table" {
		return c.outline(ctx, h, o)
	}
	req := api.TreeRequest{Corpus: c.cfg.Corpus, Root: o.root, Text: true, Vectors: o.vectors}
	if c.output == "json" {
		return c.treeJSON(ctx, h, req)
	}
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	return h.Nodes(ctx, req, func(api.TreeHead) error { return nil }, func(n *api.Node) error { return e.Encode(n) })
}

// treeJSON writes one object, a node at a time, so that a large tree isn't held in memory as text.
func (c *cli) treeJSON(ctx context.Context, trees api.Trees, req api.TreeRequest) error {
	sep := "\n"
	err := trees.Nodes(ctx, req, func(head api.TreeHead) error {
		name, err := json.Marshal(head.Corpus)
		if err == nil {
			_, err = fmt.Fprintf(c.out, `{"corpus":%s,"generation":%d,"nodes":[`, name, head.Generation)
		}
		return err
	}, func(n *api.Node) error {
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
	if err != nil {
		return err
	}
	fmt.Fprint(c.out, "\n]}\n")
	return nil
}

// shape is what of a node is held for an outline.
type shape struct {
	id                tree.ID
	level             int
	cluster, document string
	index, leaves     int
	children, parents []*shape
}

// view is a tree, or what of it hangs below one node.
type view struct {
	api.TreeHead
	all []*shape // by (level, id)
}

// readView reads the shape of a tree, without texts.
func readView(ctx context.Context, trees api.Trees, req api.TreeRequest) (*view, error) {
	v := &view{}
	byID, kids := map[tree.ID]*shape{}, map[*shape][]tree.ID{}
	err := trees.Nodes(ctx, req, func(head api.TreeHead) error { v.TreeHead = head; return nil }, func(n *api.Node) error {
		s := &shape{id: n.ID, level: n.Level, cluster: n.ClusterID, document: n.DocumentID, index: n.ChunkIndex, leaves: n.NLeaves}
		v.all = append(v.all, s)
		byID[n.ID], kids[s] = s, n.ChildIDs
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range v.all {
		for _, id := range kids[s] {
			if child := byID[id]; child != nil {
				s.children = append(s.children, child)
				child.parents = append(child.parents, s)
			}
		}
	}
	return v, nil
}
