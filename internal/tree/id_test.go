package tree_test

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/tree"
)

func TestIDsAreVersion5UUIDs(t *testing.T) {
	id := tree.LeafID("c", "d", 3, "text")
	s := id.String()
	if s[14] != '5' || (s[19] != '8' && s[19] != '9' && s[19] != 'a' && s[19] != 'b') {
		t.Errorf("%s is not a version 5 UUID", s)
	}
	back, err := tree.ParseID(s)
	if err != nil || back != id {
		t.Errorf("ParseID(%q) = %v, %v", s, back, err)
	}
	for _, bad := range []string{"", "x", s[:35], s + "0", "6ba7b810x9dad-51d1-80b4-00c04fd430c8", "zba7b810-9dad-51d1-80b4-00c04fd430c8"} {
		if _, err := tree.ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) found nothing wrong", bad)
		}
	}
}

// TestFrozenID holds the id of one leaf and one summary, computed by another program (Python's hashlib, from the
// layout described in id.go). A change here changes every id of every corpus.
func TestFrozenID(t *testing.T) {
	if got, want := tree.LeafID("default", "a.txt", 0, "One sentence.").String(), frozenLeaf; got != want {
		t.Errorf("leaf id is %s, want %s", got, want)
	}
	children := []tree.ID{{2}, {1}}
	if got, want := tree.SummaryID("default", tree.CorpusTree, 1, "recipe", children).String(), frozenSummary; got != want {
		t.Errorf("summary id is %s, want %s", got, want)
	}
	if children[0] != (tree.ID{2}) {
		t.Error("SummaryID sorted the caller's slice")
	}
}

func TestIDsTellInputsApart(t *testing.T) {
	base := tree.LeafID("c", "d", 0, "t")
	for name, other := range map[string]tree.ID{
		"corpus": tree.LeafID("cd", "", 0, "t"), "document": tree.LeafID("c", "e", 0, "t"),
		"index": tree.LeafID("c", "d", 1, "t"), "text": tree.LeafID("c", "d", 0, "u"),
	} {
		if other == base {
			t.Errorf("another %s gives the same id", name)
		}
	}
	a, b := tree.ID{1}, tree.ID{2}
	if tree.SummaryID("c", "d", 1, "r", []tree.ID{a, b}) != tree.SummaryID("c", "d", 1, "r", []tree.ID{b, a}) {
		t.Error("the order of children changes the id")
	}
	if tree.SummaryID("c", "d", 1, "r", []tree.ID{a}) == tree.SummaryID("c", "d", 2, "r", []tree.ID{a}) {
		t.Error("another level gives the same id")
	}
	if tree.SummaryID("c", "d", 1, "r", []tree.ID{a}) == tree.SummaryID("c", tree.CorpusTree, 1, "r", []tree.ID{a}) {
		t.Error("the trees of two scopes share a summary")
	}
}

// TestCarried: another author, or other children, is another id, and the name is the author's.
func TestCarried(t *testing.T) {
	a, b, author := tree.ID{1}, tree.ID{2}, tree.ID{9, 8, 7, 6}
	id := tree.CarriedID("c", "d", 1, "r", author, []tree.ID{a, b})
	if id != tree.CarriedID("c", "d", 1, "r", author, []tree.ID{b, a}) {
		t.Error("the order of children changes the id")
	}
	for name, other := range map[string]tree.ID{
		"author": tree.CarriedID("c", "d", 1, "r", tree.ID{9}, []tree.ID{a, b}), "children": tree.CarriedID("c", "d", 1, "r", author, []tree.ID{a}),
		"kind": tree.SummaryID("c", "d", 1, "r", []tree.ID{author, a, b}),
	} {
		if other == id {
			t.Errorf("another %s gives the same id", name)
		}
	}
	made, carried := tree.Node{ID: author, Level: 1}, tree.Node{ID: id, Level: 1, Author: author}
	if made.Carried() || !carried.Carried() || made.ClusterID() != "L1-09080706" || carried.ClusterID() != made.ClusterID() || made.Writer() != carried.Writer() {
		t.Errorf("%q, carried %q", made.ClusterID(), carried.ClusterID())
	}
}

func TestVisibility(t *testing.T) {
	n := tree.Node{Born: 2, Died: 4}
	for generation, want := range map[int]bool{1: false, 2: true, 3: true, 4: false} {
		if n.VisibleAt(generation) != want {
			t.Errorf("born 2, died 4: at generation %d visible is %t", generation, !want)
		}
	}
	deleted := tree.Node{Died: tree.Deleted}
	if deleted.VisibleAt(0) {
		t.Error("a deleted leaf is visible at generation 0")
	}
}

const (
	frozenLeaf    = "f8737fb5-58a3-563e-9c1b-b449a0b2c375"
	frozenSummary = "60881aeb-2a6e-539b-9861-7e51e3cdd42c"
)
