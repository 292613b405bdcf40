package retrieve_test

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/retrieve/retrievetest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestRetrieverOverMemory(t *testing.T) {
	retrievetest.Run(t, func(*testing.T) store.Store { return storetest.NewMemory() })
}

const corpusName = "c"

// built is the record of corpus c.
func built(scope tree.Scope, keepLeaves bool) levels.Corpus {
	return retrievetest.Built(corpusName, scope, keepLeaves)
}

// newWorld is a corpus in memory.
func newWorld(t *testing.T, record levels.Corpus, nodes ...tree.Node) *retrievetest.World {
	return retrievetest.New(t, storetest.NewMemory(), record, nodes...)
}

// random is a corpus in memory of about n leaves.
func random(t *testing.T, seed uint64, n int) *retrievetest.World {
	return retrievetest.Random(t, storetest.NewMemory(), corpusName, seed, n)
}
