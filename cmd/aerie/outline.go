package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

// outline prints the tree from the top, or from one node. A node with several parents is spelled out once.
func (c *cli) outline(ctx context.Context, trees api.Trees, o treeOptions) error {
	v, err := readView(ctx, trees, api.TreeRequest{Corpus: c.cfg.Corpus, Root: o.root})
	if err != nil {
		return err
	}
	top := v.top()
	switch {
	case o.root != "":
		top = v.all[len(v.all)-1:] // all else hangs below it
	case len(v.all) == 0:
		return c.say("%s holds nothing yet; aerie ingest PATH brings text in\n", v.Corpus)
	case len(top) == 0:
		return c.say("%s has %s and no tree yet; aerie build makes one\n", v.Corpus, plural(len(v.all), "leaf", "leaves"))
	}
	p := outliner{c: c, view: v, o: o, width: 110, seen: map[*shape]bool{}, bold: c.colored(c.out)}
	if width, ok := terminal(c.out); ok {
		p.width = width
	}
	if o.root == "" {
		p.line(v.summary())
	}
	p.walk("", top, 1)
	if err := p.fill(ctx, trees); err != nil {
		return err
	}
	return c.say("%s", p.b.String())
}

func (c *cli) say(format string, args ...any) error {
	_, err := fmt.Fprintf(c.out, format, args...)
	return err
}

// top returns the summaries without a parent, the largest first.
func (v *view) top() []*shape {
	var top []*shape
	for _, s := range v.all {
		if s.level > 0 && len(s.parents) == 0 {
			top = append(top, s)
		}
	}
	return bySize(top)
}

func bySize(list []*shape) []*shape {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *shape) int {
		switch {
		case a.level != b.level:
			return b.level - a.level
		case a.level == 0 && a.document != b.document:
			return strings.Compare(a.document, b.document)
		case a.level == 0:
			return a.index - b.index
		case a.leaves != b.leaves:
			return b.leaves - a.leaves
		}
		return a.id.Compare(b.id)
	})
	return list
}

// summary tells the number of nodes on each level.
func (v *view) summary() string {
	var perLevel []int
	for _, s := range v.all {
		for len(perLevel) <= s.level {
			perLevel = append(perLevel, 0)
		}
		perLevel[s.level]++
	}
	parts := make([]string, len(perLevel))
	for level, n := range perLevel {
		parts[level] = count(n)
	}
	parts[0] += " leaves"
	if len(parts) > 1 {
		parts[len(parts)-1] += " summaries"
	}
	return fmt.Sprintf("%s, generation %d: %s", v.Corpus, v.Generation, strings.Join(parts, " > "))
}

// outliner collects lines first and reads the texts that they need in one go.
type outliner struct {
	c     *cli
	view  *view
	o     treeOptions
	width int
	bold  bool
	seen  map[*shape]bool
	lines []outlineLine
	b     strings.Builder
}

type outlineLine struct {
	prefix, head string
	node         *shape // whose text follows the head; nil for none
}

func (p *outliner) line(text string) { p.lines = append(p.lines, outlineLine{head: text}) }

func (p *outliner) walk(prefix string, list []*shape, depth int) {
	list = bySize(list)
	rest := 0
	if p.o.limit > 0 && len(list) > p.o.limit {
		rest = len(list) - p.o.limit
		list = list[:p.o.limit]
	}
	for i, s := range list {
		branch, below := "├─ ", "│  "
		if i == len(list)-1 && rest == 0 {
			branch, below = "└─ ", "   "
		}
		again := p.seen[s]
		p.seen[s] = true
		head := p.head(s)
		if again && s.level > 0 {
			head += " (see above)"
		}
		p.lines = append(p.lines, outlineLine{prefix: prefix + branch, head: head, node: s})
		if !again && len(s.children) > 0 && (p.o.depth == 0 || depth < p.o.depth) {
			p.walk(prefix+below, s.children, depth+1)
		}
	}
	if rest > 0 {
		p.lines = append(p.lines, outlineLine{prefix: prefix + "└─ ", head: fmt.Sprintf("and %s more", count(rest))})
	}
}

func (p *outliner) head(s *shape) string {
	if s.level == 0 {
		return fmt.Sprintf("%s #%d", s.document, s.index)
	}
	head := fmt.Sprintf("%s  %s", s.cluster, plural(s.leaves, "leaf", "leaves"))
	if s.document != tree.CorpusTree {
		head += "  " + s.document
	}
	return head
}

// fill reads the texts and writes the lines.
func (p *outliner) fill(ctx context.Context, trees api.Trees) error {
	var ids []tree.ID
	for _, l := range p.lines {
		if l.node != nil {
			ids = append(ids, l.node.id)
		}
	}
	slices.SortFunc(ids, tree.ID.Compare)
	texts, err := trees.Texts(ctx, p.view.Corpus, slices.Compact(ids))
	if err != nil {
		return err
	}
	for _, l := range p.lines {
		p.b.WriteString(l.prefix + bold(p.bold && l.node != nil, l.head))
		if l.node != nil {
			room := p.width - len([]rune(l.prefix+l.head)) - 2
			p.b.WriteString("  " + firstLine(texts[l.node.id], max(room, 20)))
		}
		p.b.WriteByte('\n')
	}
	return nil
}
