package umap

// Curve is the low-dimensional similarity 1 / (1 + A·d^(2B)).
type Curve struct{ A, B float64 }

// DefaultCurve returns the curve that fits umap-learn's defaults, a spread of 1 and a least distance of 0.1, best; fitCurve in the
// tests finds it again.
func DefaultCurve() Curve { return Curve{A: 1.5769434602697652, B: 0.8950608778515733} }
