package knn

import (
	"context"
	"sync"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

const (
	// ExactWork is the most n·n·d for which all pairs are compared: 114,000 rows of 384, 57,000 of 1,536. Two cores do
	// it in half a minute; beyond, inverted lists win.
	ExactWork = 5e12
	// gateRows is how many rows' recall is checked; gateRecall what it must be on average, and gateLow the share of
	// rows that may have less than gateFloor.
	gateRows   = 1000
	gateRecall = 0.95
	gateLow    = 0.01
	gateFloor  = 0.6
	// mostRounds is the most rounds of descent that the gate asks for.
	mostRounds = 4
)

// Recall is how many of the true neighbors a table has, measured on some rows; all 1 for exact tables.
type Recall struct {
	Mean float64
	Low  float64 // share of rows with a recall below 0.6
}

func (r Recall) good() bool { return r.Mean >= gateRecall && r.Low <= gateLow }

// Find returns the min(k, n-1) nearest of each row: exactly while that is affordable, else from inverted lists and rounds
// of NN-descent until a sample of the rows has a recall of at least 0.95. rows must have unit length. The result depends
// on rows, k and seed only. The only error is ctx's.
func Find(ctx context.Context, m kernel.Machine, rows kernel.Rows, k int, seed uint64, progress func(done, total int)) (*Table, Recall, error) {
	n := float64(rows.Len())
	if n*n*float64(rows.Dim) <= ExactWork {
		t, err := Exact(ctx, m, rows, k, progress)
		return t, Recall{Mean: 1}, err
	}
	return Approximate(ctx, m, rows, k, seed, progress)
}

// Approximate is Find by inverted lists, for any number of rows.
func Approximate(ctx context.Context, m kernel.Machine, rows kernel.Rows, k int, seed uint64, progress func(done, total int)) (*Table, Recall, error) {
	n := rows.Len()
	t := newTable(n, max(min(k, n-1), 0))
	if t.K == 0 {
		return t, Recall{Mean: 1}, ctx.Err()
	}
	f, err := invert(ctx, m, rows, seed)
	if err != nil {
		return nil, Recall{}, err
	}
	if err := f.search(ctx, m, rows, t, progress); err != nil {
		return nil, Recall{}, err
	}
	truth, sample, err := sampled(ctx, m, rows, t.K, random.Key(seed, 2))
	if err != nil {
		return nil, Recall{}, err
	}
	var r Recall
	for range mostRounds {
		if err := descend(ctx, m, rows, t, progress); err != nil {
			return nil, Recall{}, err
		}
		if r = recall(t, truth, sample); r.good() {
			break
		}
	}
	return t, r, complete(ctx, m, rows, t)
}

// sampled returns the exact neighbors of some rows, and which rows.
func sampled(ctx context.Context, m kernel.Machine, rows kernel.Rows, k int, key uint64) (*Table, []int32, error) {
	n := rows.Len()
	count := min(gateRows, n)
	sample := make([]int32, count)
	for i := range sample {
		lo, hi := i*n/count, (i+1)*n/count
		sample[i] = int32(lo + random.Below(random.At(key, uint64(i)), hi-lo))
	}
	// One more than k: the sample's own row is its nearest.
	t := newTable(count, min(k+1, n))
	c := newCross(m, rows.Subset(sample), rows, t, false)
	queries := sequence(0, count)
	err := parallel.Ranges(ctx, m.Workers, n, blockRows, func(w, lo, hi int) {
		c.offer(c.worker(w), queries, sequence(lo, hi))
	})
	return t, sample, err
}

// Nearest returns the k nearest rows of each of some rows, which may be among them: row i of the table belongs to
// queries[i], and a query's own row is left out. The only error is ctx's.
func Nearest(ctx context.Context, m kernel.Machine, rows kernel.Rows, queries []int32, k int) (*Table, error) {
	n := rows.Len()
	wide := newTable(len(queries), min(k+1, n))
	c := newCross(m, rows.Subset(queries), rows, wide, false)
	all := sequence(0, len(queries))
	err := parallel.Ranges(ctx, m.Workers, n, blockRows, func(w, lo, hi int) {
		c.offer(c.worker(w), all, sequence(lo, hi))
	})
	if err != nil {
		return nil, err
	}
	t := newTable(len(queries), max(min(k, n-1), 0))
	for i, q := range queries {
		to := t.row(i)
		at := 0
		for _, key := range wide.row(i) {
			if at < len(to) && int32(uint32(key)) != q {
				to[at] = key
				at++
			}
		}
	}
	return t, nil
}

// recall compares a table with the truth about a sample.
func recall(t, truth *Table, sample []int32) Recall {
	var r Recall
	for s, row := range sample {
		// Equal distances are equally good: a neighbor counts when it is no farther than the last true one.
		taken, last := 0, float32(0)
		for p := 0; p < truth.K && taken < t.K; p++ {
			if j, d := truth.Neighbor(s, p); j != row {
				taken, last = taken+1, d
			}
		}
		hits := 0
		for p := range t.K {
			if j, d := t.Neighbor(int(row), p); j >= 0 && d <= last {
				hits++
			}
		}
		share := float64(hits) / float64(max(taken, 1))
		r.Mean += share / float64(len(sample))
		if share < gateFloor {
			r.Low += 1 / float64(len(sample))
		}
	}
	return r
}

// complete finds the neighbors of rows that have free places, by comparing them with all.
func complete(ctx context.Context, m kernel.Machine, rows kernel.Rows, t *Table) error {
	var poor []int32
	for i := range t.N {
		if t.row(i)[t.K-1] == none {
			poor = append(poor, int32(i))
		}
	}
	if len(poor) == 0 {
		return ctx.Err()
	}
	c := newCross(m, rows, rows, t, true)
	return parallel.Ranges(ctx, m.Workers, t.N, blockRows, func(w, lo, hi int) {
		c.offer(c.worker(w), poor, sequence(lo, hi))
	})
}

// counter tells a hook how far a parallel loop is.
type counter struct {
	mu          sync.Mutex
	done, total int
	hook        func(done, total int)
}

func newCounter(hook func(done, total int), total int) *counter {
	return &counter{hook: hook, total: total}
}

func (c *counter) one() {
	if c.hook == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	c.hook(c.done, c.total)
}
