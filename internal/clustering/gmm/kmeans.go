package gmm

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

// KMeans returns a label in 0..k-1 for each point: greedy k-means++ (Arthur and Vassilvitskii, 2007; of 2 + ln k drawn
// points the best becomes the next center, as in scikit-learn) and then at most lloyd rounds of k-means. Labels without
// a point can occur when points coincide.
func KMeans(ctx context.Context, machine kernel.Machine, d Data, k int, seed uint64, lloyd int) ([]int32, error) {
	centers, err := plusPlus(ctx, machine, d, k, seed)
	if err != nil {
		return nil, err
	}
	k = len(centers) / d.Dim
	label, previous := make([]int32, d.N), make([]int32, d.N)
	near := make([]float64, d.N)
	search := newSearch(machine, d.Dim)
	for round := 0; ; round++ {
		search.pack(centers)
		err := parallel.Ranges(ctx, machine.Workers, d.N, blockRows, func(w, lo, hi int) {
			search.nearest(w, d, lo, hi, label, near)
		})
		if err != nil {
			return nil, err
		}
		same := round > 0
		for i := range label {
			if label[i] != previous[i] {
				same = false
				break
			}
		}
		if same || round >= lloyd {
			return label, nil
		}
		copy(previous, label)
		recenter(d, label, near, centers, k)
	}
}

// search finds the nearest center of many points by products of matrices: |x-c|² = |x|² - 2·(x·c - |c|²/2), so the nearest
// center is the one with the largest x·c - |c|²/2.
type search struct {
	machine kernel.Machine
	dim, k  int
	packed  []float64 // panels of the centers with -|c|²/2 as a further coordinate
	memory  []*searchRows
}

// searchRows is one goroutine's memory.
type searchRows struct{ a, c []float64 }

func newSearch(m kernel.Machine, dim int) *search {
	return &search{machine: m, dim: dim, memory: make([]*searchRows, m.Workers)}
}

func (s *search) pack(centers []float64) {
	s.k = len(centers) / s.dim
	depth := s.dim + 1
	panels := kernel.Panels(s.k, kernel.NR64)
	if len(s.packed) != panels*depth*kernel.NR64 {
		s.packed = make([]float64, panels*depth*kernel.NR64)
	}
	for c := range s.k {
		to := s.packed[c/kernel.NR64*depth*kernel.NR64+c%kernel.NR64:]
		var half float64
		for j, v := range centers[c*s.dim : (c+1)*s.dim] {
			to[j*kernel.NR64] = v
			half += float64(v*v) / 2
		}
		to[s.dim*kernel.NR64] = -half
	}
}

// nearest sets label and near, the squared distance, for the points lo..hi.
func (s *search) nearest(w int, d Data, lo, hi int, label []int32, near []float64) {
	depth := s.dim + 1
	panels := kernel.Panels(s.k, kernel.NR64)
	ld := panels * kernel.NR64
	if s.memory[w] == nil || len(s.memory[w].c) != kernel.MR64*ld {
		s.memory[w] = &searchRows{make([]float64, depth*kernel.MR64), make([]float64, kernel.MR64*ld)}
	}
	m := s.memory[w]
	for at := lo; at < hi; at += kernel.MR64 {
		n := min(kernel.MR64, hi-at)
		for i := range n {
			for j, v := range d.row(at + i) {
				m.a[j*kernel.MR64+i] = v
			}
			m.a[s.dim*kernel.MR64+i] = 1
		}
		for p := range panels {
			s.machine.Tile64(depth, m.a, s.packed[p*depth*kernel.NR64:], m.c[p*kernel.NR64:], ld)
		}
		for i := range n {
			best, place := math.Inf(-1), 0
			for c, v := range m.c[i*ld : i*ld+s.k] {
				if v > best {
					best, place = v, c
				}
			}
			var norm float64
			for _, v := range d.row(at + i) {
				norm += float64(v * v)
			}
			label[at+i], near[at+i] = int32(place), max(norm-2*best, 0)
		}
	}
}

// squared returns the squared distance of x and y, in two chains that overlap.
func squared(x, y []float64) float64 {
	var s, r float64
	y = y[:len(x)]
	n := len(x) &^ 1
	for j := 0; j < n; j += 2 {
		t, u := x[j]-y[j], x[j+1]-y[j+1]
		s += float64(t * t)
		r += float64(u * u)
	}
	if n < len(x) {
		t := x[n] - y[n]
		s += float64(t * t)
	}
	return s + r
}

// recenter moves each center to the mean of its points. A center without points moves to the point farthest from its own.
func recenter(d Data, label []int32, near, centers []float64, k int) {
	clear(centers)
	weight := make([]float64, k)
	for i, l := range label {
		w := d.weight(i)
		weight[l] += w
		c := centers[int(l)*d.Dim:]
		for j, v := range d.row(i) {
			c[j] += float64(w * v)
		}
	}
	for c := range k {
		if weight[c] > 0 {
			for j := range d.Dim {
				centers[c*d.Dim+j] /= weight[c]
			}
			continue
		}
		far := 0
		for i, v := range near {
			if v > near[far] {
				far = i
			}
		}
		copy(centers[c*d.Dim:(c+1)*d.Dim], d.row(far))
		near[far] = 0
	}
}

// plusPlus returns k centers, or fewer when there are not as many distinct points.
func plusPlus(ctx context.Context, machine kernel.Machine, d Data, k int, seed uint64) ([]float64, error) {
	key := random.Key(seed, 0x6b6d)
	draws := uint64(0)
	draw := func() float64 { draws++; return random.Float64(random.At(key, draws)) }
	trials := 2 + int(math.Log(float64(k)))
	near := make([]float64, d.N)
	for i := range near {
		near[i] = math.Inf(1)
	}
	trial := make([]float64, trials*d.N)
	centers := make([]float64, 0, k*d.Dim)
	first := pick(draw(), d, nil)
	centers = append(centers, d.row(first)...)
	for i := range near {
		near[i] = squared(d.row(i), d.row(first))
	}
	potential := make([]float64, trials)
	chosen := make([]int, trials)
	for len(centers) < k*d.Dim {
		for t := range chosen {
			chosen[t] = pick(draw(), d, near)
		}
		if chosen[0] < 0 {
			return centers, ctx.Err() // every point is a center
		}
		err := parallel.For(ctx, machine.Workers, trials, func(_, t int) {
			c, to := d.row(chosen[t]), trial[t*d.N:(t+1)*d.N]
			var sum float64
			for i := range d.N {
				v := min(near[i], squared(d.row(i), c))
				to[i] = v
				sum += float64(d.weight(i) * v)
			}
			potential[t] = sum
		})
		if err != nil {
			return nil, err
		}
		best := 0
		for t, p := range potential {
			if p < potential[best] {
				best = t
			}
		}
		centers = append(centers, d.row(chosen[best])...)
		copy(near, trial[best*d.N:(best+1)*d.N])
	}
	return centers, nil
}

// pick returns the point at the fraction u of the sum of weight·near (near nil: of weight), or -1 when that is 0.
func pick(u float64, d Data, near []float64) int {
	mass := func(i int) float64 {
		if near == nil {
			return d.weight(i)
		}
		return float64(d.weight(i) * near[i])
	}
	var sum float64
	for i := range d.N {
		sum += mass(i)
	}
	target, last := u*sum, -1
	for i := range d.N {
		m := mass(i)
		if m <= 0 {
			continue
		}
		last = i
		target -= m
		if target < 0 {
			return i
		}
	}
	return last
}
