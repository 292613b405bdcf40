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
	for round := 0; ; round++ {
		err := parallel.Ranges(ctx, machine.Workers, d.N, blockRows, func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				label[i], near[i] = nearest(d.row(i), centers, d.Dim)
			}
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

func nearest(x, centers []float64, dim int) (int32, float64) {
	best, at := math.Inf(1), 0
	for c := 0; c*dim < len(centers); c++ {
		if s := squared(x, centers[c*dim:(c+1)*dim]); s < best {
			best, at = s, c
		}
	}
	return int32(at), best
}

func squared(x, y []float64) float64 {
	var s float64
	for j, v := range x {
		t := v - y[j]
		s += float64(t * t)
	}
	return s
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
