package knn

import (
	"context"
	"slices"
	"sync"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
)

// reverseRoom is how many of the rows that have a row as a neighbor take part in its join, the nearest ones.
const reverseRoom = 15

// descend is one synchronous round of NN-descent (Dong, Moses and Li, "Efficient k-nearest neighbor graph construction
// for generic similarity measures", 2011): all pairs among a row, its neighbors and the rows it is a neighbor of are
// offered to each other. The neighborhoods are those at the start of the round, so the outcome, the k best of what was
// there and what was offered, doesn't depend on the order of the offers.
func descend(ctx context.Context, m kernel.Machine, rows kernel.Rows, t *Table, progress func(done, total int)) error {
	j := newJoin(m, rows, t)
	done := newCounter(progress, (t.N+joinRows-1)/joinRows)
	return parallel.Ranges(ctx, m.Workers, t.N, joinRows, func(w, lo, hi int) {
		worker := j.worker(w)
		for i := lo; i < hi; i++ {
			j.row(worker, i)
		}
		done.one()
	})
}

// joinRows is how many rows a goroutine takes at a time.
const joinRows = 256

// join is one round.
type join struct {
	machine kernel.Machine
	rows    kernel.Rows
	table   *Table
	old     []int32 // the neighbors at the start, n x k
	reach   []float32
	reverse csr
	nearest []float32 // for each entry of reverse, the distance
	locks   []sync.Mutex
	workers []*joinWorker
}

type joinWorker struct {
	set      []int32
	incoming []uint64
	a, b, c  []float32
}

func newJoin(m kernel.Machine, rows kernel.Rows, t *Table) *join {
	j := &join{machine: m, rows: rows, table: t, reach: make([]float32, t.N),
		locks: make([]sync.Mutex, stripes), workers: make([]*joinWorker, m.Workers)}
	var distance []float32
	j.old, distance = t.Flat()
	for i := range t.N {
		j.reach[i] = t.reach(i)
	}
	j.turn(distance)
	return j
}

// turn lists, for each row, the rows that have it as a neighbor.
func (j *join) turn(distance []float32) {
	c := csr{offset: make([]int, j.table.N+1), row: make([]int32, len(j.old))}
	for _, o := range j.old {
		if o >= 0 {
			c.offset[o+1]++
		}
	}
	for i := range j.table.N {
		c.offset[i+1] += c.offset[i]
	}
	j.nearest = make([]float32, len(j.old))
	next := slices.Clone(c.offset)
	for at, o := range j.old {
		if o >= 0 {
			c.row[next[o]], j.nearest[next[o]] = int32(at/j.table.K), distance[at]
			next[o]++
		}
	}
	j.reverse = c
}

func (j *join) worker(w int) *joinWorker {
	if j.workers[w] == nil {
		m, d := j.machine, j.rows.Dim
		most := 1 + j.table.K + reverseRoom
		as, bs := kernel.Panels(most, m.MR)*m.MR, kernel.Panels(most, m.NR)*m.NR
		j.workers[w] = &joinWorker{a: make([]float32, as*d), b: make([]float32, bs*d), c: make([]float32, as*bs)}
	}
	return j.workers[w]
}

// row joins the neighborhood of row i.
func (j *join) row(w *joinWorker, i int) {
	w.gather(j, i)
	m, d, n := j.machine, j.rows.Dim, len(w.set)
	view := j.rows.Subset(w.set)
	view.Pack(w.a, 0, n, m.MR)
	view.Pack(w.b, 0, n, m.NR)
	as, bs := kernel.Panels(n, m.MR), kernel.Panels(n, m.NR)
	for p := range as {
		for q := range bs {
			if q*m.NR+m.NR <= p*m.MR {
				continue // below the diagonal
			}
			m.Tile(d, w.a[p*m.MR*d:], w.b[q*m.NR*d:], w.c[p*m.MR*bs*m.NR+q*m.NR:], bs*m.NR)
		}
	}
	for x := range n {
		for y := x + 1; y < n; y++ {
			distance := clamp(1 - w.c[x*bs*m.NR+y])
			j.propose(w.set[x], w.set[y], distance)
			j.propose(w.set[y], w.set[x], distance)
		}
	}
}

// gather collects row i, its neighbors, and the nearest rows that it is a neighbor of, ascending.
func (w *joinWorker) gather(j *join, i int) {
	k := j.table.K
	w.set = append(w.set[:0], int32(i))
	for _, o := range j.old[i*k : (i+1)*k] {
		if o >= 0 {
			w.set = append(w.set, o)
		}
	}
	w.incoming = w.incoming[:0]
	for at := j.reverse.offset[i]; at < j.reverse.offset[i+1]; at++ {
		w.incoming = append(w.incoming, key(j.nearest[at], j.reverse.row[at]))
	}
	if len(w.incoming) > reverseRoom {
		slices.Sort(w.incoming)
		w.incoming = w.incoming[:reverseRoom]
	}
	for _, v := range w.incoming {
		w.set = append(w.set, int32(uint32(v)))
	}
	slices.Sort(w.set)
	w.set = slices.Compact(w.set)
}

// propose offers b to row a.
func (j *join) propose(a, b int32, distance float32) {
	if distance > j.reach[a] {
		return
	}
	lock := &j.locks[int(a)%stripes]
	lock.Lock()
	j.table.insertNew(int(a), key(distance, b))
	lock.Unlock()
}
