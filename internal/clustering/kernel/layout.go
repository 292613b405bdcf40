package kernel

import (
	"math"
	"unsafe"
)

// Curve is the low-dimensional similarity 1 / (1 + a·d^(2b)) of a layout, with what the loops need precomputed.
type Curve struct {
	a, b            float32
	pull, push      float32 // -2ab and 2b
	nearest, soften float32 // least squared distance of an attraction; what is added to that of a repulsion
}

// NewCurve returns the curve for a and b.
func NewCurve(a, b float64) Curve {
	return Curve{a: float32(a), b: float32(b), pull: float32(-2 * a * b), push: float32(2 * b), nearest: 1e-10, soften: 1e-3}
}

// Stride is what the width of a layout's points is a multiple of. Widths of one stride are the fast case.
const Stride = 16

// Group is what the length of lists of distances is a multiple of.
const Group = 8

// layoutLoops are the loops of a layout over points of one stride.
type layoutLoops struct {
	distances func(n int, dst, y, points *float32, targets *int32)
	attract   func(n int, x *float32, c *Curve)
	repel     func(n int, x *float32, c *Curve)
	pull      func(n int, grad, y, points *float32, targets *int32, factor *float32)
	step      func(n int, next, y, m, v, grad *float32, rate float32)
}

// Distances sets dst[t] to the squared distance of the point y to the target'th row of points, row-major and as wide as
// y. The width is a multiple of [Stride], the length of targets one of [Group].
//
// The sum has eight lanes, lane l over the elements l, l+8, …, and then ((0+1)+(2+3)) + ((4+5)+(6+7)).
func (s *Set) Distances(dst, y, points []float32, targets []int32) {
	n := len(targets)
	if len(y)%Stride != 0 || n%Group != 0 || len(dst) < n {
		panic("kernel: distances: bad lengths")
	}
	if n > 0 && s.distances != nil && len(y) == Stride {
		s.distances(n, &dst[0], &y[0], &points[0], &targets[0])
		return
	}
	stride := len(y)
	for t, target := range targets {
		p := points[int(target)*stride : int(target+1)*stride]
		var lane [8]float32
		for i := 0; i < stride; i += 8 {
			for l := range lane {
				d := y[i+l] - p[i+l]
				lane[l] += float32(d * d)
			}
		}
		dst[t] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]))
	}
}

// Attract turns squared distances x into the factors of the attraction's gradient, -2ab·p / (x·(1 + a·p)) with p = x^b.
// The length of x is a multiple of [Group].
func (s *Set) Attract(x []float32, c *Curve) {
	if len(x) > 0 && s.attract != nil {
		s.attract(groups(x), &x[0], c)
		return
	}
	for i, v := range x {
		v = max(v, c.nearest)
		p := exp2(float32(c.b * log2(v)))
		x[i] = float32(c.pull*p) / float32(v*(1+float32(c.a*p)))
	}
}

// Repel turns squared distances x into the factors of the repulsion's gradient, 2b / ((0.001 + x)·(1 + a·p)), p = x^b.
// The length of x is a multiple of [Group].
func (s *Set) Repel(x []float32, c *Curve) {
	if len(x) > 0 && s.repel != nil {
		s.repel(groups(x), &x[0], c)
		return
	}
	for i, v := range x {
		p := exp2(float32(c.b * log2(max(v, c.nearest))))
		x[i] = c.push / float32((c.soften+v)*(1+float32(c.a*p)))
	}
}

func groups(x []float32) int {
	if len(x)%Group != 0 {
		panic("kernel: a list of distances must be whole groups")
	}
	return len(x)
}

// Pull adds factor[t]·(y - points[target]), each element held to [-4, 4], to g for each target in order.
func (s *Set) Pull(g, y, points []float32, targets []int32, factor []float32) {
	stride := len(y)
	if len(g) != stride || len(factor) < len(targets) {
		panic("kernel: pull: bad lengths")
	}
	if len(targets) > 0 && s.pull != nil && stride == Stride {
		s.pull(len(targets), &g[0], &y[0], &points[0], &targets[0], &factor[0])
		return
	}
	for t, target := range targets {
		p := points[int(target)*stride : int(target+1)*stride]
		f := factor[t]
		for i, v := range y {
			g[i] += max(min(float32(f*(v-p[i])), 4), -4)
		}
	}
}

// Step is one step of Adam (Kingma and Ba, 2014) along g with the rate already corrected for the epoch:
// m ← m·β₁ + g·(1-β₁), v ← v·β₂ + g²·(1-β₂), next = y + rate·m / (√v + ε), with β₁ 0.5, β₂ 0.9, ε 1e-7. All are
// equally long, a multiple of [Group].
func (s *Set) Step(next, y, m, v, g []float32, rate float32) {
	n := groups(g)
	next, y, m, v = next[:n], y[:n], m[:n], v[:n]
	if n > 0 && s.step != nil {
		s.step(n, &next[0], &y[0], &m[0], &v[0], &g[0], rate)
		return
	}
	for i, gi := range g {
		m[i] = float32(m[i]*0.5) + float32(gi*0.5)
		v[i] = float32(v[i]*0.9) + float32(float32(gi*gi)*0.1)
		next[i] = y[i] + float32(rate*m[i])/(float32(math.Sqrt(float64(v[i])))+1e-7)
	}
}

// curveSize is the size the assembly expects of a Curve.
const curveSize = 24

var _ [curveSize]byte = [unsafe.Sizeof(Curve{})]byte{}

// log2 returns the base-2 logarithm of a positive normal x with an absolute error below 2e-5.
func log2(x float32) float32 {
	bits := math.Float32bits(x)
	e := float32(int32(bits>>23) - 127)
	m := math.Float32frombits(bits&0x7fffff|0x3f800000) - 1
	p := float32(log2c5 * m)
	p = float32((p + log2c4) * m)
	p = float32((p + log2c3) * m)
	p = float32((p + log2c2) * m)
	p = float32((p + log2c1) * m)
	return e + p
}

// exp2 returns 2^x for x in [-126, 126] with a relative error below 1e-6; outside, x is brought to the bound.
func exp2(x float32) float32 {
	x = max(min(x, 126), -126)
	t := float32(x + magic)
	f := x - float32(t-magic)
	p := float32(exp2c5 * f)
	p = float32((p + exp2c4) * f)
	p = float32((p + exp2c3) * f)
	p = float32((p + exp2c2) * f)
	p = float32((p + exp2c1) * f)
	return math.Float32frombits(math.Float32bits(p+1) + math.Float32bits(t)<<23)
}

// The polynomials of log2(1+m) on [0, 1] and 2^f on [-1/2, 1/2], fitted to the least largest error (1.4e-5 and 1e-7).
const (
	log2c1 = 1.44196561
	log2c2 = -0.70966278
	log2c3 = 0.41759565
	log2c4 = -0.19626947
	log2c5 = 0.04638529
	exp2c1 = 0.69314721
	exp2c2 = 0.24022235
	exp2c3 = 0.05550308
	exp2c4 = 0.00967188
	exp2c5 = 0.00134073
	// magic is 1.5·2^23: adding it leaves the nearest integer in the low bits.
	magic = 12582912
)
