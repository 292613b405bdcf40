// Package knn finds nearest neighbors under cosine distance, 1 - x·y for unit rows, clamped to [0, 2].
//
// Distances are float32 from [kernel.Set.Tile], so every method and every machine gets the same bits for a pair of
// rows. Neighbors are ordered by (distance, index), a total order: the k best of a set of candidates do not depend on
// the order in which they arrive, and that makes the parallel loops here reproducible.
package knn

import (
	"math"
	"slices"
)

// key packs a distance and an index so that keys compare like (distance, index): the bits of floats that aren't
// negative ascend with the floats.
func key(distance float32, index int32) uint64 {
	return uint64(math.Float32bits(distance))<<32 | uint64(uint32(index))
}

// clamp brings 1 - s into [0, 2]; rounding can leave it a little outside.
func clamp(d float32) float32 {
	if d > 0 {
		return min(d, 2)
	}
	return 0
}

// none marks a free place of a table; it compares after every neighbor.
const none = math.MaxUint64

// Table holds the k nearest of each of n rows, the row itself left out, ascending by (distance, index).
type Table struct {
	N, K int
	keys []uint64 // n x k
}

func newTable(n, k int) *Table {
	t := &Table{N: n, K: k, keys: make([]uint64, n*k)}
	for i := range t.keys {
		t.keys[i] = none
	}
	return t
}

func (t *Table) row(i int) []uint64 { return t.keys[i*t.K : (i+1)*t.K] }

// reach returns the distance that a new neighbor of row i may have at most.
func (t *Table) reach(i int) float32 {
	last := t.keys[(i+1)*t.K-1]
	if last == none {
		return math.MaxFloat32
	}
	return math.Float32frombits(uint32(last >> 32))
}

// insert offers a neighbor to row i. The caller knows that it isn't there yet.
func (t *Table) insert(i int, k uint64) {
	row := t.row(i)
	if k >= row[len(row)-1] {
		return
	}
	at := len(row) - 1
	if at > 32 {
		at, _ = slices.BinarySearch(row, k)
		copy(row[at+1:], row[at:len(row)-1])
		row[at] = k
		return
	}
	for at > 0 && row[at-1] > k {
		row[at] = row[at-1]
		at--
	}
	row[at] = k
}

// insertNew is insert for neighbors that may be there already.
func (t *Table) insertNew(i int, k uint64) {
	row := t.row(i)
	if k >= row[len(row)-1] {
		return
	}
	// The distance is a function of the pair, so the same neighbor has the same key.
	if _, found := slices.BinarySearch(row, k); !found {
		t.insert(i, k)
	}
}

// Neighbor returns the place'th nearest of row i, or -1 and +Inf where there is none.
func (t *Table) Neighbor(i, place int) (int32, float32) {
	k := t.keys[i*t.K+place]
	if k == none {
		return -1, float32(math.Inf(1))
	}
	return int32(uint32(k)), math.Float32frombits(uint32(k >> 32))
}

// Flat returns the table as two n x K arrays, with -1 and +Inf at free places.
func (t *Table) Flat() (index []int32, distance []float32) {
	index, distance = make([]int32, len(t.keys)), make([]float32, len(t.keys))
	for at := range t.keys {
		index[at], distance[at] = t.Neighbor(at/t.K, at%t.K)
	}
	return index, distance
}

// Size returns the number of rows and of places in each.
func (t *Table) Size() (n, k int) { return t.N, t.K }
