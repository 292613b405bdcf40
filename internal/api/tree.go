package api

import "github.com/aerie-rag/aerie/internal/tree"

// Node is one node of a tree, and one line of aerie tree --output jsonl.
type Node struct {
	ID          tree.ID   `json:"id"`
	Level       int       `json:"level" doc:"0 for a leaf"`
	ClusterID   string    `json:"cluster_id"`
	ChildIDs    []tree.ID `json:"child_ids"`
	ParentIDs   []tree.ID `json:"parent_ids"`
	DocumentIDs []string  `json:"document_ids" doc:"the documents under it"`
	// DocumentID is the document of a leaf, and what a summary's tree spans.
	DocumentID string `json:"document_id" doc:"the document of a leaf, or of the tree that a summary is in"`
	ChunkIndex int    `json:"chunk_index" doc:"a leaf's place in its document, from 0; -1 for a summary"`
	Tokens     int    `json:"tokens"`
	NLeaves    int    `json:"n_leaves"`
	Born       int    `json:"born"`
	// Author is the summary that the text was made for: the summary itself, or of a carried one another; none of a leaf.
	Author       tree.ID   `json:"author,omitzero" doc:"the summary that the text was made for; another one if it is carried"`
	Carried      bool      `json:"carried" doc:"the text is that of the summary's place in the tree before"`
	UnseenTokens int       `json:"unseen_tokens" doc:"tokens of the leaves under it that its text was not made from"`
	Context      string    `json:"context,omitempty" doc:"headings and table head that the text of a leaf stands under"`
	Source       string    `json:"source,omitempty" doc:"what the document of a leaf belongs to"`
	Text         string    `json:"text"`
	Vector       []float32 `json:"vector,omitempty"`
}

// Shown is one node and where it stands, and the JSON of aerie show.
type Shown struct {
	TreeHead
	Node
	// Previous and Following are the leaves beside a leaf in its document; zero at its ends, and of a summary.
	Previous  tree.ID `json:"previous,omitzero" doc:"the leaf before it in its document"`
	Following tree.ID `json:"following,omitzero" doc:"the leaf after it in its document"`
}

// TreeHead says which tree nodes are of.
type TreeHead struct {
	Corpus     string `json:"corpus"`
	Generation int    `json:"generation"`
}

// TreeHash says what a tree holds.
type TreeHash struct {
	TreeHead
	Hash string `json:"hash" doc:"of the ids and texts of all nodes, 32 hexadecimal digits"`
}

// TreeRequest asks for the nodes that a reader sees, by (level, id).
type TreeRequest struct {
	Corpus string
	// Root, if not empty, is the node to start at: an id, the beginning of one, or a cluster id.
	Root string
	// Depth is how many levels to go down from Root, or from the top, those included; 0: all.
	Depth int
	// Text and Vectors add what is large.
	Text, Vectors bool
}

// NodePage is a page of nodes.
type NodePage struct {
	TreeHead
	Nodes      []Node `json:"nodes"`
	NextCursor string `json:"next_cursor" doc:"where to go on; empty at the end"`
}
