package clustering

import "github.com/aerie-rag/aerie/internal/clustering/sphere"

// centersOf normalizes k sums of d numbers; a sum of 0 stays 0.
func centersOf(sums []float64, k, d int) []float32 {
	out := make([]float32, k*d)
	for c := range k {
		sphere.Normalize(out[c*d:(c+1)*d], sums[c*d:(c+1)*d])
	}
	return out
}

func dot(x, y []float32) float64 {
	var s float64
	for i, v := range x {
		s += float64(float64(v) * float64(y[i]))
	}
	return s
}
