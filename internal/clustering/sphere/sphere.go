// Package sphere is k-means on unit vectors: each row goes to the center with the largest dot product, a center is its
// rows' normalized sum (Dhillon and Modha, "Concept decompositions for large sparse text data using clustering", 2001).
// The products are the tiles of package kernel, sums of rows are float64 in row order, and ties go to the lower center.
package sphere

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

const (
	// plusPlus is the most centers that k-means++ chooses; more are drawn evenly.
	plusPlus = 64
	// chunk is how many rows a goroutine takes at a time, a multiple of every tile height.
	chunk = 384
)

// Centers is k unit vectors, dim wide, row-major.
type Centers struct {
	X      []float32
	K, Dim int
}

// Rows returns the centers as a view.
func (c *Centers) Rows() kernel.Rows { return kernel.Rows{X: c.X, Dim: c.Dim} }

// KMeans clusters unit rows into k clusters in at most rounds rounds and returns each row's cluster and the centers.
// weight counts each row (nil: 1). It ends early when nothing changes. There can be clusters without rows only when
// there are fewer distinct rows than clusters. The only error is ctx's.
func KMeans(ctx context.Context, m kernel.Machine, rows kernel.Rows, weight []float64, k int, seed uint64, rounds int) ([]int32, *Centers, error) {
	n := rows.Len()
	k = min(k, n)
	c, err := seeds(ctx, m, rows, weight, k, random.Key(seed, 0x7370))
	if err != nil {
		return nil, nil, err
	}
	label, likeness := make([]int32, n), make([]float32, n)
	before := make([]int32, n)
	for round := 0; ; round++ {
		if err := c.Assign(ctx, m, rows, label, likeness); err != nil {
			return nil, nil, err
		}
		same := round > 0
		for i, l := range label {
			if before[i] != l {
				same = false
				break
			}
		}
		if same || round >= rounds {
			return label, c, nil
		}
		copy(before, label)
		if err := c.recenter(ctx, m, rows, weight, label, likeness); err != nil {
			return nil, nil, err
		}
	}
}

// seeds returns k centers from the rows.
func seeds(ctx context.Context, m kernel.Machine, rows kernel.Rows, weight []float64, k int, key uint64) (*Centers, error) {
	n, d := rows.Len(), rows.Dim
	c := &Centers{X: make([]float32, k*d), K: k, Dim: d}
	if k > plusPlus {
		// One of each of k equal ranges.
		for i := range k {
			lo, hi := i*n/k, (i+1)*n/k
			rows.At(c.X[i*d:(i+1)*d], lo+random.Below(random.At(key, uint64(i)), hi-lo))
		}
		return c, ctx.Err()
	}
	far := make([]float64, n)
	for i := range far {
		far[i] = 1
	}
	row := make([][]float32, m.Workers)
	for i := range k {
		at := draw(random.Float64(random.At(key, uint64(i))), far, weight)
		center := c.X[i*d : (i+1)*d]
		rows.At(center, at)
		err := parallel.Ranges(ctx, m.Workers, n, chunk, func(w, lo, hi int) {
			if row[w] == nil {
				row[w] = make([]float32, d)
			}
			for p := lo; p < hi; p++ {
				rows.At(row[w], p)
				dist := max(1-dot(row[w], center), 0)
				if i == 0 {
					far[p] = dist
				}
				far[p] = min(far[p], dist)
			}
		})
		if err != nil {
			return nil, err
		}
		far[at] = 0
	}
	return c, nil
}

func dot(x, y []float32) float64 {
	var s [4]float64
	n := len(x) &^ 3
	for i := 0; i < n; i += 4 {
		for l := range s {
			s[l] += float64(float64(x[i+l]) * float64(y[i+l]))
		}
	}
	for i := n; i < len(x); i++ {
		s[0] += float64(float64(x[i]) * float64(y[i]))
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// draw returns the row at the fraction u of the sum of weight·far; the first row when that is 0.
func draw(u float64, far, weight []float64) int {
	mass := func(i int) float64 {
		if weight == nil {
			return far[i]
		}
		return float64(far[i] * weight[i])
	}
	var sum float64
	for i := range far {
		sum += mass(i)
	}
	target, last := u*sum, 0
	for i := range far {
		w := mass(i)
		if w <= 0 {
			continue
		}
		last = i
		if target -= w; target < 0 {
			break
		}
	}
	return last
}

// Assign sets label to the center nearest to each row, the lower one among equals, and likeness to the dot product.
func (c *Centers) Assign(ctx context.Context, m kernel.Machine, rows kernel.Rows, label []int32, likeness []float32) error {
	packed := c.pack(m)
	n, d := rows.Len(), rows.Dim
	memory := make([][2][]float32, m.Workers)
	return parallel.Ranges(ctx, m.Workers, n, chunk, func(w, lo, hi int) {
		if memory[w][0] == nil {
			full := kernel.Panels(min(chunk, n), m.MR) * m.MR
			memory[w] = [2][]float32{make([]float32, full*d), make([]float32, full*m.NR)}
		}
		a, strip := memory[w][0], memory[w][1]
		rows.Pack(a, lo, hi, m.MR)
		for i := lo; i < hi; i++ {
			label[i], likeness[i] = 0, float32(math.Inf(-1))
		}
		for p := range kernel.Panels(c.K, m.NR) {
			m.Strip(kernel.Panels(hi-lo, m.MR), d, a, packed[p*d*m.NR:], strip)
			width := min(m.NR, c.K-p*m.NR)
			for i := range hi - lo {
				best, at := likeness[lo+i], label[lo+i]
				for j, v := range strip[i*m.NR : i*m.NR+width] {
					if v > best {
						best, at = v, int32(p*m.NR+j)
					}
				}
				likeness[lo+i], label[lo+i] = best, at
			}
		}
	})
}

func (c *Centers) pack(m kernel.Machine) []float32 {
	packed := make([]float32, kernel.Panels(c.K, m.NR)*m.NR*c.Dim)
	c.Rows().Pack(packed, 0, c.K, m.NR)
	return packed
}

// recenter moves the centers to the normalized sums of their rows. A center without rows, or whose rows cancel out,
// moves to the row that is least like its own center and hasn't been taken.
func (c *Centers) recenter(ctx context.Context, m kernel.Machine, rows kernel.Rows, weight []float64, label []int32, likeness []float32) error {
	n, d := rows.Len(), rows.Dim
	// The rows of each center, by counting.
	offset := make([]int, c.K+1)
	for _, l := range label {
		offset[l+1]++
	}
	for i := range c.K {
		offset[i+1] += offset[i]
	}
	order, next := make([]int32, n), append([]int(nil), offset...)
	for i, l := range label {
		order[next[l]] = int32(i)
		next[l]++
	}
	lost := make([]bool, c.K)
	err := parallel.Ranges(ctx, m.Workers, c.K, 8, func(_, lo, hi int) {
		sum, row := make([]float64, d), make([]float32, d)
		for k := lo; k < hi; k++ {
			clear(sum)
			for _, i := range order[offset[k]:offset[k+1]] {
				rows.At(row, int(i))
				w := 1.0
				if weight != nil {
					w = weight[i]
				}
				for t, v := range row {
					sum[t] += float64(w * float64(v))
				}
			}
			lost[k] = !Normalize(c.X[k*d:(k+1)*d], sum)
		}
	})
	if err != nil {
		return err
	}
	for k, l := range lost {
		if !l {
			continue
		}
		far := 0
		for i, v := range likeness {
			if v < likeness[far] {
				far = i
			}
		}
		rows.At(c.X[k*d:(k+1)*d], far)
		likeness[far] = 2
	}
	return nil
}

// Normalize sets dst to the unit vector along sum, or reports false and leaves dst alone when sum is all but 0.
func Normalize(dst []float32, sum []float64) bool {
	var s float64
	for _, v := range sum {
		s += float64(v * v)
	}
	norm := math.Sqrt(s)
	if !(norm > 1e-9) {
		return false
	}
	for t, v := range sum {
		dst[t] = float32(v / norm)
	}
	return true
}
