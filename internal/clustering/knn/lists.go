package knn

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
	"github.com/aerie-rag/aerie/internal/clustering/sphere"
)

const (
	// Probes is how many lists a row looks into.
	Probes = 10
	// trainRows is how many rows the lists' centers are found from, in trainRounds rounds.
	trainRows   = 1 << 16
	trainRounds = 6
)

// inverted is an inverted file: each row is a member of the list with the most similar center, and looks for neighbors
// among the members of the probes lists that are most similar to it.
type inverted struct {
	members csr // of each list
	queries csr // rows that look into each list
}

// csr is lists of rows, one after the other.
type csr struct {
	offset []int
	row    []int32
}

func (c csr) list(i int) []int32 { return c.row[c.offset[i]:c.offset[i+1]] }

// group sorts rows into lists by counting: of(i, p) is the list of row i's p'th place, p < places.
func group(lists, rows, places int, of func(i, p int) int32) csr {
	c := csr{offset: make([]int, lists+1), row: make([]int32, rows*places)}
	for i := range rows {
		for p := range places {
			c.offset[of(i, p)+1]++
		}
	}
	for l := range lists {
		c.offset[l+1] += c.offset[l]
	}
	next := append([]int(nil), c.offset...)
	for i := range rows {
		for p := range places {
			l := of(i, p)
			c.row[next[l]] = int32(i)
			next[l]++
		}
	}
	return c
}

// invert builds the lists, about 2√n of them.
func invert(ctx context.Context, m kernel.Machine, rows kernel.Rows, seed uint64) (*inverted, error) {
	n := rows.Len()
	lists := max(int(2*math.Sqrt(float64(n))), 1)
	sample := rows
	if step := n / trainRows; step > 1 {
		var places []int32
		for i := 0; i < n; i += step {
			places = append(places, int32(i))
		}
		sample = rows.Subset(places)
	}
	_, centers, err := sphere.KMeans(ctx, m, sample, nil, lists, random.Key(seed, 1), trainRounds)
	if err != nil {
		return nil, err
	}
	lists = centers.K
	places := min(Probes, lists)
	nearest := newTable(n, places)
	c := newCross(m, rows, centers.Rows(), nearest, false)
	all := sequence(0, lists)
	err = parallel.Ranges(ctx, m.Workers, n, blockRows, func(w, lo, hi int) {
		c.offer(c.worker(w), sequence(lo, hi), all)
	})
	if err != nil {
		return nil, err
	}
	of := func(i, p int) int32 { l, _ := nearest.Neighbor(i, p); return l }
	return &inverted{members: group(lists, n, 1, of), queries: group(lists, n, places, of)}, nil
}

// search offers each list's members to the rows that look into it.
func (f *inverted) search(ctx context.Context, m kernel.Machine, rows kernel.Rows, t *Table, progress func(done, total int)) error {
	c := newCross(m, rows, rows, t, true)
	lists := len(f.members.offset) - 1
	done := newCounter(progress, lists)
	return parallel.For(ctx, m.Workers, lists, func(w, l int) {
		c.offer(c.worker(w), f.queries.list(l), f.members.list(l))
		done.one()
	})
}
