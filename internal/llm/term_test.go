package llm

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The walk through terms must be the walk through the matrix of cosines, which is how LexRank is defined.
func TestRankIsTheWalkOnTheDenseMatrix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "sentences")
		seed := rapid.Uint64().Draw(rt, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		g := &sentenceGraph{terms: 8}
		for range n {
			s := sentence{prior: 1}
			var norm float64
			for term := range 8 {
				if r.IntN(4) == 0 || term == 7 && len(s.terms) == 0 {
					w := 0.1 + r.Float64()
					s.terms = append(s.terms, weighted{int32(term), w})
					norm += w * w
				}
			}
			for i := range s.terms {
				s.terms[i].weight /= math.Sqrt(norm)
			}
			g.sentences = append(g.sentences, s)
		}
		got, want := g.rank(), denseRank(g)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-6 {
				rt.Fatalf("sentence %d has %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func denseRank(g *sentenceGraph) []float64 {
	n := len(g.sentences)
	w := make([][]float64, n)
	for i := range w {
		w[i] = make([]float64, n)
		var sum float64
		for j := range w[i] {
			if i != j {
				w[i][j] = g.cosine(i, j)
				sum += w[i][j]
			}
		}
		for j := range w[i] {
			if sum < 1e-9 {
				w[i][j] = 1 / float64(n)
			} else {
				w[i][j] /= sum
			}
		}
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = 1 / float64(n)
	}
	for range walkSteps {
		next := make([]float64, n)
		for j := range next {
			next[j] = (1 - damping) / float64(n)
			for i := range x {
				next[j] += damping * x[i] * w[i][j]
			}
		}
		x = next
	}
	return x
}

// 1 + ln tf, from its definition.
func TestTFWeight(t *testing.T) {
	for tf := int32(1); tf < 12; tf++ {
		if got, want := tfWeight(tf), 1+math.Log(float64(tf)); math.Abs(got-want) > 1e-15 {
			t.Errorf("tf %d: %v, want %v", tf, got, want)
		}
	}
}

// The projection keeps cosines but for noise of about 1/sqrt(width): compare it with the cosine of the features
// themselves.
func TestProjectionKeepsCosines(t *testing.T) {
	texts := []string{
		"The committee approved the annual budget after a long debate on school funding.",
		"After a long debate the committee approved next year's budget for schools.",
		"Penguins huddle together through the antarctic winter to keep their eggs warm.",
		"Der Ausschuss stimmte dem Haushalt nach langer Debatte zu.",
		"委员会经过长时间的辩论后批准了年度预算。",
		"经过辩论，委员会批准了学校预算。",
	}
	sparse := make([]map[uint64]float64, len(texts))
	dense := make([][]float32, len(texts))
	for i, text := range texts {
		s := newSketch(LexicalWidth)
		dense[i] = s.embed(text)
		sparse[i] = map[uint64]float64{}
		for _, at := range s.used {
			f := s.slots[at]
			sparse[i][f.hash] = float64(f.weight) * tfWeight(f.count)
		}
	}
	for i := range texts {
		for j := range i {
			var ab, aa, bb, got float64
			for h, w := range sparse[i] {
				ab += w * sparse[j][h]
				aa += w * w
			}
			for _, w := range sparse[j] {
				bb += w * w
			}
			for k := range dense[i] {
				got += float64(dense[i][k]) * float64(dense[j][k])
			}
			want := ab / math.Sqrt(aa*bb)
			if math.Abs(got-want) > 4/math.Sqrt(LexicalWidth) {
				t.Errorf("texts %d and %d: cosine %v, of the features %v", i, j, got, want)
			}
		}
	}
}
