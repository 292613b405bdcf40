package knn

import (
	"math/bits"
	"sync"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// stripes is the number of locks that guard a table's rows between goroutines.
const stripes = 1 << 10

// cross offers rows of one view to rows of another as neighbors: the product of a list of queries with a list of
// members, many such pairs side by side. A table's rows are queries.
type cross struct {
	machine kernel.Machine
	queries kernel.Rows
	members kernel.Rows
	table   *Table
	// same says that both views are the same rows, so a row must not become its own neighbor and may be offered twice.
	same    bool
	locks   []sync.Mutex
	workers []*crossWorker
}

// crossWorker is one goroutine's memory.
type crossWorker struct {
	a, b, strip []float32
	reach       []float32
	found       []uint64
	pending     []pending
	never       []float32 // column limits nothing is within
}

func newCross(m kernel.Machine, queries, members kernel.Rows, t *Table, same bool) *cross {
	return &cross{machine: m, queries: queries, members: members, table: t, same: same,
		locks: make([]sync.Mutex, stripes), workers: make([]*crossWorker, m.Workers)}
}

func (c *cross) worker(w int) *crossWorker {
	if c.workers[w] == nil {
		m, d := c.machine, c.queries.Dim
		rows := kernel.Panels(min(blockRows, c.queries.Len()), m.MR) * m.MR
		cols := kernel.Panels(min(blockRows, c.members.Len()), m.NR) * m.NR
		c.workers[w] = &crossWorker{
			a: make([]float32, rows*d), b: make([]float32, cols*d),
			strip: make([]float32, rows*m.NR), reach: make([]float32, rows), found: make([]uint64, rows),
			never: []float32{-2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2, -2},
		}
	}
	return c.workers[w]
}

// offer offers every member of a list to every query of a list.
func (c *cross) offer(w *crossWorker, queries, members []int32) {
	m, d := c.machine, c.queries.Dim
	for bLo := 0; bLo < len(members); bLo += blockRows {
		bs := members[bLo:min(bLo+blockRows, len(members))]
		c.members.Subset(bs).Pack(w.b, 0, len(bs), m.NR)
		for aLo := 0; aLo < len(queries); aLo += blockRows {
			as := queries[aLo:min(aLo+blockRows, len(queries))]
			c.queries.Subset(as).Pack(w.a, 0, len(as), m.MR)
			c.read(w, as)
			for p := range kernel.Panels(len(bs), m.NR) {
				m.Strip(kernel.Panels(len(as), m.MR), d, w.a, w.b[p*d*m.NR:], w.strip)
				for col := 0; col < m.NR && p*m.NR+col < len(bs); col += 16 {
					c.collect(w, as, bs[p*m.NR+col:], w.strip[col:])
				}
			}
			c.flush(w)
		}
	}
}

// read copies the reaches of the queries.
func (c *cross) read(w *crossWorker, as []int32) {
	for i, a := range as {
		lock := &c.locks[int(a)%stripes]
		lock.Lock()
		w.reach[i] = c.table.reach(int(a))
		lock.Unlock()
	}
}

// collect takes what is within reach from 16 columns of a strip.
func (c *cross) collect(w *crossWorker, as, bs []int32, strip []float32) {
	nr := c.machine.NR
	n := c.machine.Screen(len(as), strip, nr, w.reach, w.never, w.found)
	for _, f := range w.found[:n] {
		i := int(f >> 32)
		for mask := uint32(f) & 0xffff; mask != 0; mask &= mask - 1 {
			j := bits.TrailingZeros32(mask)
			if j >= len(bs) || c.same && bs[j] == as[i] {
				continue
			}
			w.pending = append(w.pending, pending{as[i], key(clamp(1-strip[i*nr+j]), bs[j])})
		}
		if len(w.pending) >= pendingRoom*len(w.reach) {
			c.flush(w)
			c.read(w, as)
		}
	}
}

// flush hands the collected neighbors to the table.
func (c *cross) flush(w *crossWorker) {
	for at := 0; at < len(w.pending); {
		row := w.pending[at].row
		lock := &c.locks[int(row)%stripes]
		lock.Lock()
		for ; at < len(w.pending) && w.pending[at].row == row; at++ {
			if c.same {
				c.table.insertNew(int(row), w.pending[at].key)
			} else {
				c.table.insert(int(row), w.pending[at].key)
			}
		}
		lock.Unlock()
	}
	w.pending = w.pending[:0]
}

// sequence returns lo, lo+1, …, hi-1.
func sequence(lo, hi int) []int32 {
	out := make([]int32, hi-lo)
	for i := range out {
		out[i] = int32(lo + i)
	}
	return out
}
