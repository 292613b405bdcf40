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

// Replaced is the recipe of a leaf that a newer version of its document lacks: its text is gone, and no reader sees it. It says which
// document it was of, and how long it was, as long as a summary that readers see rests on it.
const Replaced = "replaced"

// Emptied is the recipe of a summary whose text was taken out, because some of the text below it is gone. It keeps its place in its
// tree, with the mean of its children's vectors for a vector, until a build makes it again; no reader is shown it.
const Emptied = "emptied"

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

	// Context is what a leaf's document says around its text, such as its headings and the head of its table; "" for none. It is
	// indexed and embedded with the text, shown beside it, and no part of it. Empty for a summary.
	Context string
	Text    string
	Tokens  int // of Text, by aerie's offline tokenizer
	// NLeaves is the number of distinct leaves under the node; 1 for a leaf.
	NLeaves int
	// Recipe names how a summary was made; empty for a leaf.
	Recipe string

	// Author is the summary whose text and vector a carried summary has; zero for every other node. A carried summary
	// stands in a tree that has grown: its children are those of now, its text was made from those of then.
	Author ID
	// Unseen is how many tokens of the leaves under a summary its text was not made from, neither itself nor through the
	// texts of its children; at least 0. Formed is the number of tokens that its children had when its cluster was formed,
	// before it grew; 0 when that is unknown. Both are 0 for a leaf.
	Unseen, Formed int

	// Born and Died are generations: a reader at generation G sees the node if Born <= G < Died.
	Born, Died int

	// Source is what the leaf's document belongs to: a folder or file that was ingested, or a name that was given; "" if unknown. Path
	// is where the document was read. Updated is when the leaf was written, in seconds since 1970; 0 if unknown. Zero for a summary.
	Source, Path string
	Updated      int64

	// Metadata holds the caller's properties of a leaf. Nil for a summary.
	Metadata Metadata

	// Vector is the embedding, unit length; nil where it was not asked for.
	Vector []float32
}

// IsLeaf reports whether the node is a piece of a document and not a summary.
func (n *Node) IsLeaf() bool { return n.Level == 0 }

// VisibleAt reports whether a reader at a generation sees the node.
func (n *Node) VisibleAt(generation int) bool { return n.Born <= generation && generation < n.Died }

// Superseded reports whether a leaf was replaced by a newer version of its document.
func (n *Node) Superseded() bool { return n.Recipe == Replaced }

// Emptied reports whether a summary's text was taken out.
func (n *Node) Emptied() bool { return n.Recipe == Emptied }

// Carried reports whether a summary has the text of another, its author.
func (n *Node) Carried() bool { return !n.Author.IsZero() }

// Writer returns the summary that the node's text was made for: the author, or the node itself.
func (n *Node) Writer() ID {
	if n.Carried() {
		return n.Author
	}
	return n.ID
}

// ClusterID names the cluster that a summary stands for, such as "L2-0f3c9a51". It is derived from the id, of a carried
// summary from its author's, so that a summary keeps its name as long as it has the same text. Empty for a leaf.
func (n *Node) ClusterID() string {
	if n.IsLeaf() {
		return ""
	}
	id := n.Writer()
	return fmt.Sprintf("L%d-%x", n.Level, id[:4])
}
