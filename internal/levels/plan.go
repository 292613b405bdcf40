package levels

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Plan is the frozen outcome of clustering one level: which nodes of the level below become which summary.
// Clusters stand in the order of their first child, and a cluster's position is its bit in the barrier.
type Plan struct {
	Corpus     string     `json:"corpus"`
	Build      string     `json:"build"`
	Level      int        `json:"level"` // of the summaries, from 1
	Recipe     string     `json:"recipe"`
	Generation int        `json:"generation"`
	Scope      tree.Scope `json:"scope"`
	NodesIn    int        `json:"nodes_in"`
	Clusters   []Cluster  `json:"clusters"`
	// Stopped is the reason when there is nothing to build at this level; Clusters is empty then.
	Stopped string `json:"stopped,omitempty"`
	// Digest is the SHA-256 of the plan's JSON without it, in hexadecimal. Seal sets it.
	Digest string `json:"digest"`
}

// Cluster is one task of a plan.
type Cluster struct {
	ID         tree.ID   `json:"id"` // of the summary
	DocumentID string    `json:"document_id"`
	Children   []tree.ID `json:"children"` // in the order in which they are summarized
	Tokens     int       `json:"tokens"`   // of all children
	NLeaves    int       `json:"n_leaves"` // distinct

	// What follows is zero but in a tree that has grown from the one before. It is in the digest, and what the levels above
	// are planned from: after a kill the growth of the levels below is read from their plans.

	// Slot is the summary of the tree before whose place the cluster has taken; zero for a new one. From is the one that a
	// new cluster was split from.
	Slot tree.ID `json:"slot,omitzero"`
	From tree.ID `json:"from,omitzero"`
	// Author is set if the summary is carried: it gets the text and vector of Slot, which are Author's, without a call.
	Author tree.ID `json:"author,omitzero"`
	// Unseen and Formed are those of the node to be; see [tree.Node].
	Unseen int `json:"unseen_tokens,omitempty"`
	Formed int `json:"formed_tokens,omitempty"`
}

// Of returns the level that the plan is for.
func (p *Plan) Of() tree.Level {
	return tree.Level{Corpus: p.Corpus, Build: p.Build, Level: p.Level}
}

// Seal sets Digest.
func (p *Plan) Seal() { p.Digest = p.digest() }

// Verify reports an error if the plan isn't the one that was sealed.
func (p *Plan) Verify() error {
	if got := p.digest(); got != p.Digest {
		return fmt.Errorf("levels: plan of build %s level %d has digest %.12s, sealed as %.12s", p.Build, p.Level, got, p.Digest)
	}
	return nil
}

func (p *Plan) digest() string {
	unsealed := *p
	unsealed.Digest = ""
	b, err := json.Marshal(&unsealed)
	if err != nil {
		panic("levels: a plan always encodes: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
