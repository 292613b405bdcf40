package retrieve

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkCoverage packs a full pool of leaves of about 80 words into 2,000 tokens, reading of their terms
// included.
func BenchmarkCoverage(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	var pool []*candidate
	for i := range 150 {
		var text strings.Builder
		for range 80 {
			fmt.Fprintf(&text, "word%d, ", int(random.ExpFloat64()*400))
		}
		n := leaf("d", i, text.String(), at(0.9-float64(i)/300))
		pool = append(pool, &candidate{node: n, score: float64(n.Vector[0]), loaded: true})
	}
	req := Request{Options: Defaults()}
	for b.Loop() {
		for _, c := range pool {
			c.terms = nil
		}
		yard := yardstick(pool, true)
		relevance(pool, yard, *req.Pool, &req, *req.SummaryWeight)
		packCoverage(newCover(pool, yard, vocabulary{}), *req.Budget, *req.TopK)
	}
}
