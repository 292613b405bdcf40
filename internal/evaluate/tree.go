package evaluate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TreeHash returns a hash of the ids and texts of the nodes that a reader at a generation sees, 32 hexadecimal
// digits: two trees with the same hash answer alike under the same embedder.
func TreeHash(ctx context.Context, nodes store.Store, corpus string, generation int) (string, error) {
	h := sha256.New()
	err := nodes.Each(ctx, corpus, store.AnyLevel().VisibleAt(generation), store.Fields{Text: true}, func(n *tree.Node) error {
		fmt.Fprintf(h, "%s %d\n", n.ID, len(n.Text))
		_, err := io.WriteString(h, n.Text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("evaluate: corpus %s: %w", corpus, err)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
