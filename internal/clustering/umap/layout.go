package umap

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

const (
	// Epochs of a layout. More than 200 change clusters less than another seed does.
	Epochs = 200
	// negatives is how many random points push for each neighbor that pulls.
	negatives = 5
	// vertexBlock is how many vertices a goroutine takes at a time.
	vertexBlock = 128
	// box is the size of the start's box in each axis.
	box = 10
)

// Options says how to lay out.
type Options struct {
	Dim    int // columns of the start and the result
	Epochs int
	Seed   uint64
	Curve  Curve
	// Progress, if not nil, is told after each epoch.
	Progress func(done, total int)
}

// Layout moves the points of start, N x Dim, so that neighbors in g come together and others apart, and returns the new
// points. It is a function of its arguments, whatever m is. The only error is ctx's.
func Layout(ctx context.Context, m kernel.Machine, g *Graph, start []float32, o Options) ([]float32, error) {
	l := newLayout(m, g, start, o)
	for epoch := range o.Epochs {
		if err := l.step(ctx, epoch); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(epoch+1, o.Epochs)
		}
	}
	out := make([]float32, g.N*o.Dim)
	for i := range g.N {
		copy(out[i*o.Dim:(i+1)*o.Dim], l.at[i*l.stride:])
	}
	return out, nil
}

// layout is the state between epochs. Points are stride floats apart, a multiple of kernel.Stride, zero beyond the dimension.
type layout struct {
	machine  kernel.Machine
	graph    *Graph
	options  Options
	curve    kernel.Curve
	stride   int
	rate     []uint32 // how often an edge is due: rate / 2^32 of the epochs
	at, next []float32
	m, v     []float32
	scratch  []*scratch
}

// scratch is one goroutine's memory: the targets of a vertex in an epoch and what comes of them.
type scratch struct {
	pull, push []int32
	factor     []float32
	gradient   []float32
}

func newLayout(m kernel.Machine, g *Graph, start []float32, o Options) *layout {
	stride := (o.Dim + kernel.Stride - 1) / kernel.Stride * kernel.Stride
	l := &layout{machine: m, graph: g, options: o, curve: kernel.NewCurve(o.Curve.A, o.Curve.B), stride: stride,
		rate: make([]uint32, len(g.Weight)), at: make([]float32, g.N*stride), next: make([]float32, g.N*stride),
		m: make([]float32, g.N*stride), v: make([]float32, g.N*stride), scratch: make([]*scratch, m.Workers)}
	var heaviest float32
	for _, w := range g.Weight {
		heaviest = max(heaviest, w)
	}
	for e, w := range g.Weight {
		l.rate[e] = uint32(min(float64(w)/float64(heaviest)*(1<<32), 1<<32-1))
	}
	l.place(start)
	return l
}

// place scales the start to the box, axis by axis, and adds a little noise, so that no two points coincide.
func (l *layout) place(start []float32) {
	n, dim := l.graph.N, l.options.Dim
	key := random.Key(l.options.Seed, 1)
	for j := range dim {
		lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
		for i := range n {
			lo, hi = min(lo, start[i*dim+j]), max(hi, start[i*dim+j])
		}
		scale := float32(0)
		if hi > lo {
			scale = box / (hi - lo)
		}
		for i := range n {
			noise := random.Float64(random.At(key, uint64(i*dim+j))) - 0.5
			l.at[i*l.stride+j] = float32(scale*(start[i*dim+j]-lo)) + float32(1e-3*noise)
		}
	}
}

// step moves every point once.
func (l *layout) step(ctx context.Context, epoch int) error {
	// Adam's bias corrections, and a rate that falls to nothing as in umap-learn.
	rate := float32((1 - float64(epoch)/float64(l.options.Epochs)) * math.Sqrt(1-powi(0.9, epoch+1)) / (1 - powi(0.5, epoch+1)))
	key := random.Key(l.options.Seed, uint64(epoch)+2)
	err := parallel.Ranges(ctx, l.machine.Workers, l.graph.N, vertexBlock, func(w, lo, hi int) {
		s := l.scratch[w]
		if s == nil {
			s = &scratch{gradient: make([]float32, l.stride)}
			l.scratch[w] = s
		}
		for i := lo; i < hi; i++ {
			l.gradient(s, i, uint32(epoch), key)
			at, to := i*l.stride, (i+1)*l.stride
			l.machine.Step(l.next[at:to], l.at[at:to], l.m[at:to], l.v[at:to], s.gradient, rate)
		}
	})
	l.at, l.next = l.next, l.at
	return err
}

// powi returns x^n without math.Pow, whose bits differ between processors.
func powi(x float64, n int) float64 {
	p := 1.0
	for range n {
		p *= x
	}
	return p
}

// gradient sums the forces on vertex i in one epoch. An edge is due when its accumulated rate passes a whole number;
// each edge stands in the graph twice, once for either end, so what an end feels counts double.
func (l *layout) gradient(s *scratch, i int, epoch uint32, key uint64) {
	clear(s.gradient)
	lo, hi := l.graph.Offset[i], l.graph.Offset[i+1]
	s.targets(hi - lo)
	due := 0
	n := uint64(l.graph.N)
	for e := lo; e < hi; e++ {
		r := l.rate[e]
		phase := epoch * r
		if phase+r >= phase {
			continue
		}
		s.pull[due] = l.graph.Col[e]
		word := random.At(key, uint64(e))
		for k := range negatives {
			s.push[due*negatives+k] = int32(word >> 32 * n >> 32)
			word = word*6364136223846793005 + 1442695040888963407
		}
		due++
	}
	if due == 0 {
		return
	}
	y := l.at[i*l.stride : (i+1)*l.stride]
	l.force(s, s.pull, due, i, y, l.machine.Attract)
	for t := range s.gradient {
		s.gradient[t] *= 2
	}
	l.force(s, s.push, due*negatives, i, y, l.machine.Repel)
}

// force adds one kind of force by the first n targets, after filling their last group up with the vertex itself.
func (l *layout) force(s *scratch, targets []int32, n, i int, y []float32, factors func([]float32, *kernel.Curve)) {
	full := (n + kernel.Group - 1) / kernel.Group * kernel.Group
	for t := n; t < full; t++ {
		targets[t] = int32(i)
	}
	l.machine.Distances(s.factor, y, l.at, targets[:full])
	factors(s.factor[:full], &l.curve)
	l.machine.Pull(s.gradient, y, l.at, targets[:n], s.factor)
}

// targets makes room for the edges of a vertex, in whole groups.
func (s *scratch) targets(edges int) {
	if len(s.pull) >= edges {
		return
	}
	edges = (edges + 63) / 64 * 64
	s.pull, s.push = make([]int32, edges), make([]int32, edges*negatives)
	s.factor = make([]float32, edges*negatives)
}
