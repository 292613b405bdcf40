package umap

import "math"

// fitCurve returns the curve closest, by least squares at 300 distances in 0..3·spread, to 1 below minDist and
// exp(-(d - minDist) / spread) above, as umap-learn's find_ab_params. It takes Levenberg-Marquardt steps from A = B = 1.
func fitCurve(spread, minDist float64) Curve {
	const points = 300
	var xs, ys [points]float64
	for i := range xs {
		xs[i] = 3 * spread * float64(i) / (points - 1)
		ys[i] = 1
		if xs[i] >= minDist {
			ys[i] = math.Exp(-(xs[i] - minDist) / spread)
		}
	}
	loss := func(c Curve) (s float64) {
		for i, x := range xs {
			r := 1/(1+c.A*math.Pow(x, 2*c.B)) - ys[i]
			s += r * r
		}
		return s
	}
	c, damp := Curve{1, 1}, 1e-3
	for range 200 {
		var aa, ab, bb, ra, rb float64
		for i, x := range xs {
			if x == 0 {
				continue // the curve is 1 there whatever A and B are
			}
			p := math.Pow(x, 2*c.B)
			f := 1 / (1 + c.A*p)
			r := f - ys[i]
			da, db := -f*f*p, -f*f*c.A*p*2*math.Log(x)
			aa, ab, bb, ra, rb = aa+da*da, ab+da*db, bb+db*db, ra+da*r, rb+db*r
		}
		aa, bb = aa*(1+damp), bb*(1+damp)
		det := aa*bb - ab*ab
		next := Curve{c.A - (bb*ra-ab*rb)/det, c.B - (aa*rb-ab*ra)/det}
		if loss(next) <= loss(c) {
			if math.Abs(next.A-c.A)+math.Abs(next.B-c.B) < 1e-13 {
				return next
			}
			c, damp = next, damp/10
		} else {
			damp *= 10
		}
	}
	return c
}
