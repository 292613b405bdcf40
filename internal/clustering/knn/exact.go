package knn

import (
	"context"
	"math/bits"
	"sync"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
)

const (
	// blockRows is the height of a block of rows: a multiple of every tile height and width (6, 12, 16, 32), large
	// enough that packing a block (once for each pair of blocks) costs a few percent of the products.
	blockRows = 1152
	// smallBlock replaces it for few rows, so that small calls stay small.
	smallBlock = 96
	// pendingRoom is how many candidates for each row of a block a worker collects before it hands them to the table.
	pendingRoom = 8
)

// Exact returns the min(k, n-1) nearest of each of the n rows, found by comparing all pairs. rows must have unit
// length. progress, if not nil, is told how many of the pairs of blocks are done. The only error is ctx's.
//
// Blocks of rows are paired, the upper triangle of pairs only: each tile of products feeds the rows of both blocks.
func Exact(ctx context.Context, m kernel.Machine, rows kernel.Rows, k int, progress func(done, total int)) (*Table, error) {
	n := rows.Len()
	t := newTable(n, max(min(k, n-1), 0))
	if t.K == 0 {
		return t, ctx.Err()
	}
	e := newExact(m, rows, t)
	blocks := len(e.locks)
	total := blocks * (blocks + 1) / 2
	done := newCounter(progress, total)
	err := parallel.For(ctx, m.Workers, total, func(w, i int) {
		e.pair(e.worker(w), i)
		done.one()
	})
	return t, err
}

// exact is the state of one run over all pairs of blocks.
type exact struct {
	machine kernel.Machine
	rows    kernel.Rows
	table   *Table
	size    int          // rows of a block
	locks   []sync.Mutex // one for each block's rows in the table
	workers []*worker
}

// worker is one goroutine's memory.
type worker struct {
	a, b     []float32 // packed blocks
	aBlock   int       // which block a holds, -1 for none
	strip    []float32
	aReach   []float32 // of the rows of the a block
	bReach   []float32
	found    []uint64
	pendingA []pending // neighbors for rows of the a block
	pendingB []pending
}

// pending is a neighbor on its way to the table.
type pending struct {
	row int32
	key uint64
}

func newExact(m kernel.Machine, rows kernel.Rows, t *Table) *exact {
	size := blockRows
	for size > smallBlock && size/2 >= t.N {
		size /= 2
	}
	if t.N <= 4*smallBlock {
		size = smallBlock
	}
	return &exact{machine: m, rows: rows, table: t, size: size,
		locks: make([]sync.Mutex, (t.N+size-1)/size), workers: make([]*worker, m.Workers)}
}

// worker returns the memory of goroutine w, made when it first asks.
func (e *exact) worker(w int) *worker {
	if e.workers[w] == nil {
		m := e.machine
		depth := e.rows.Dim
		rows := min(e.size, e.table.N)
		aRows, bRows := kernel.Panels(rows, m.MR)*m.MR, kernel.Panels(rows, m.NR)*m.NR
		e.workers[w] = &worker{
			a: make([]float32, aRows*depth), b: make([]float32, bRows*depth), aBlock: -1,
			strip:  make([]float32, aRows*m.NR),
			aReach: make([]float32, aRows), bReach: make([]float32, bRows),
			found: make([]uint64, aRows),
		}
	}
	return e.workers[w]
}

// span returns the rows of a block.
func (e *exact) span(block int) (lo, hi int) {
	return block * e.size, min((block+1)*e.size, e.table.N)
}

// pair handles the i'th pair of blocks of the upper triangle, counted row by row.
func (e *exact) pair(w *worker, i int) {
	blocks := len(e.locks)
	ab := 0
	for i >= blocks-ab {
		i -= blocks - ab
		ab++
	}
	bb := ab + i
	aLo, aHi := e.span(ab)
	bLo, bHi := e.span(bb)
	m := e.machine
	if w.aBlock != ab {
		e.rows.Pack(w.a, aLo, aHi, m.MR)
		w.aBlock = ab
	}
	e.rows.Pack(w.b, bLo, bHi, m.NR)
	e.reach(ab, w.aReach)
	e.reach(bb, w.bReach)
	depth := e.rows.Dim
	panels := kernel.Panels(aHi-aLo, m.MR)
	for p := range kernel.Panels(bHi-bLo, m.NR) {
		m.Strip(panels, depth, w.a, w.b[p*depth*m.NR:], w.strip)
		for c := 0; c < m.NR; c += 16 {
			e.collect(w, ab, bb, p*m.NR+c, w.strip[c:])
		}
	}
	e.flush(w, ab, bb)
}

// collect takes the neighbors within reach from 16 columns of a strip; first is the first column's place in the b block.
func (e *exact) collect(w *worker, ab, bb, first int, strip []float32) {
	aLo, aHi := e.span(ab)
	bLo, bHi := e.span(bb)
	if bLo+first >= bHi {
		return
	}
	nr := e.machine.NR
	n := e.machine.Screen(aHi-aLo, strip, nr, w.aReach, w.bReach[first:], w.found)
	for _, f := range w.found[:n] {
		i := int(f >> 32)
		row := aLo + i
		for mask := uint32(f); mask != 0; mask &= mask - 1 {
			bit := bits.TrailingZeros32(mask)
			col := bLo + first + (bit & 15)
			if col >= bHi || col == row {
				continue
			}
			d := clamp(1 - strip[i*nr+(bit&15)])
			switch {
			case bit < 16:
				w.pendingA = append(w.pendingA, pending{int32(row), key(d, int32(col))})
			case ab != bb:
				w.pendingB = append(w.pendingB, pending{int32(col), key(d, int32(row))})
			}
		}
		if len(w.pendingA)+len(w.pendingB) >= pendingRoom*e.size {
			e.flush(w, ab, bb)
		}
	}
}

// flush hands the collected neighbors to the table and reads the new reaches.
func (e *exact) flush(w *worker, ab, bb int) {
	w.pendingA = e.apply(ab, w.pendingA, w.aReach)
	w.pendingB = e.apply(bb, w.pendingB, w.bReach)
}

func (e *exact) apply(block int, list []pending, reach []float32) []pending {
	if len(list) == 0 {
		return list
	}
	e.locks[block].Lock()
	defer e.locks[block].Unlock()
	for _, p := range list {
		e.table.insert(int(p.row), p.key)
	}
	lo, hi := e.span(block)
	for i := lo; i < hi; i++ {
		reach[i-lo] = e.table.reach(i)
	}
	return list[:0]
}

func (e *exact) reach(block int, reach []float32) {
	e.locks[block].Lock()
	defer e.locks[block].Unlock()
	lo, hi := e.span(block)
	for i := lo; i < hi; i++ {
		reach[i-lo] = e.table.reach(i)
	}
	// Beyond the last row nothing is within reach: no distance is below -1.
	for i := hi - lo; i < len(reach); i++ {
		reach[i] = -2
	}
}
