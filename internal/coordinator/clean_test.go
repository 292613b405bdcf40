package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// choosing makes summaries of sentences of their passages, as the built-in summarizer does: the first of the least, in the order of
// letters, so that most documents have no say in most summaries.
func choosing(_ context.Context, texts []string) (string, error) {
	var all []string
	for _, text := range texts {
		for _, s := range mapreduce.Sentences(text) {
			all = append(all, strings.TrimSpace(s))
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return strings.Join(all[:min(3, len(all))], " "), nil
}

// passages makes a document of one sentence a leaf.
func (s *system) sentences(document string, topic int, words ...int) {
	s.t.Helper()
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = fmt.Sprintf("Bird %d.%d sings %d.%d in the wood.", topic, w, topic, w+1)
	}
	s.writeTexts(document, texts)
}

// TestDeletionSparesWhatHoldsNothing: a document goes. The summaries that quote it are made again, and those above them that do; a
// summary that only stood above it keeps its text, word for word in what is left below it. With stale 0 each is made again.
func TestDeletionSparesWhatHoldsNothing(t *testing.T) {
	build := func(stale float64) (s *system, calls, over int) {
		s = growing(t)
		s.stale, s.endpoint.answer = stale, choosing
		for d := range 12 {
			s.sentences(fmt.Sprintf("doc%02d", d), d/3, span(10*(d%3), 10*(d%3)+10)...)
		}
		s.build(coordinator.Request{})
		over = len(s.above("doc02"))
		s.erase("doc02")
		report := s.build(coordinator.Request{Force: true})
		for _, n := range s.seenSummaries() {
			for _, sentence := range mapreduce.Sentences(n.Text) {
				if !s.below(n.ID, strings.TrimSpace(sentence)) {
					t.Errorf("stale %v, level %d: %q stands in no leaf below", stale, n.Level, sentence)
				}
			}
		}
		return s, report.Calls, over
	}
	s, calls, over := build(0.2)
	_, all, _ := build(0)
	if calls == 0 || calls >= all || all > over {
		t.Errorf("%d summaries stood above the document: %d calls, with stale 0 %d", over, calls, all)
	}
	carried := 0
	for _, n := range s.seenSummaries() {
		if n.Carried() {
			carried++
		}
	}
	if carried == 0 {
		t.Error("no text was carried over")
	}
}

// above returns the summaries that rest on a document.
func (s *system) above(document string) []*tree.Node {
	nodes := s.nodesByID()
	var out []*tree.Node
	for _, n := range nodes {
		if !n.IsLeaf() && slices.ContainsFunc(leavesUnder(nodes, n.ID), func(l *tree.Node) bool { return l.DocumentID == document }) {
			out = append(out, n)
		}
	}
	return out
}

func leavesUnder(nodes map[tree.ID]*tree.Node, id tree.ID) []*tree.Node {
	n := nodes[id]
	if n == nil {
		return nil
	}
	if n.IsLeaf() {
		return []*tree.Node{n}
	}
	var out []*tree.Node
	for _, c := range n.Children {
		out = append(out, leavesUnder(nodes, c)...)
	}
	return out
}

// below reports whether a sentence stands in a leaf under a node.
func (s *system) below(id tree.ID, sentence string) bool {
	return slices.ContainsFunc(leavesUnder(s.nodesByID(), id), func(l *tree.Node) bool { return strings.Contains(l.Text, sentence) })
}
