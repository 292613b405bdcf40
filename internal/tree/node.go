package tree

import (
	"fmt"
	"math"
)

// CorpusTree is the document id under which the summaries of a tree over a whole corpus are filed. No document
// may claim it.
const CorpusTree = "raptor://corpus-tree"

// Alive is the value of Died of a node that no generation has dropped. It fits a signed 32-bit integer, the
// narrowest that any store keeps.
const Alive = math.MaxInt32

// Deleted is the value of Died of a leaf whose document was deleted or changed while a build was open: no
// reader sees it at any generation, and the text goes when the build has ended.
const Deleted = 0

// Scope says what one tree spans.
type Scope string

// The scopes. A leaf has none.
const (
	ScopeCorpus   Scope = "corpus"   // one tree over all documents
	ScopeDocument Scope = "document" // a tree for each document; no summary crosses two
)

// Node is a leaf or a summary.
type Node struct {
	ID    ID
	Level int // 0 for a leaf

	// DocumentID is the leaf's document; of a summary the document whose tree it belongs to, or CorpusTree.
	DocumentID string
	// ChunkIndex is the leaf's place in its document, from 0; -1 for a summary.
	ChunkIndex int
	// Scope is that of the tree a summary belongs to; empty for a leaf.
	Scope Scope
	// Children are the nodes that a summary was made from, ascending; nil for a leaf.
	Children []ID

	Text   string
	Tokens int // of Text, by aerie's offline tokenizer
	// NLeaves is the number of distinct leaves under the node; 1 for a leaf.
	NLeaves int
	// Recipe names how a summary was made; empty for a leaf.
	Recipe string

	// Born and Died are generations: a reader at generation G sees the node if Born <= G < Died.
	Born, Died int

	// Metadata holds the caller's flat properties of a leaf: string, float64, bool, or a slice of one of
	// these. Nil for a summary.
	Metadata map[string]any

	// Vector is the embedding, unit length; nil where it was not asked for.
	Vector []float32
}

// IsLeaf reports whether the node is a piece of a document and not a summary.
func (n *Node) IsLeaf() bool { return n.Level == 0 }

// VisibleAt reports whether a reader at a generation sees the node.
func (n *Node) VisibleAt(generation int) bool { return n.Born <= generation && generation < n.Died }

// ClusterID names the cluster that a summary stands for, such as "L2-0f3c9a51". It is derived from the id, so
// that a summary reused by a later build keeps its name. Empty for a leaf.
func (n *Node) ClusterID() string {
	if n.IsLeaf() {
		return ""
	}
	return fmt.Sprintf("L%d-%x", n.Level, n.ID[:4])
}
