package clustering

import (
	"cmp"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/knn"
)

// keepNeighbors records the global stage's neighbors, for all rows: copies are each other's nearest.
func (r *run) keepNeighbors(atoms []int32, t *knn.Table) {
	n, k := r.in.N, t.K
	out := &KNN{K: k}
	if len(atoms) == n {
		out.Index, out.Distance = t.Flat()
		r.result.KNN = out
		return
	}
	out.Index, out.Distance = make([]int32, n*k), make([]float32, n*k)
	for i := range out.Index {
		out.Index[i] = -1
	}
	type neighbor struct {
		row      int32
		distance float32
	}
	var list []neighbor
	for i, a := range atoms {
		for _, row := range r.atoms[a].rows {
			list = list[:0]
			for _, c := range r.atoms[a].rows {
				if c != row {
					list = append(list, neighbor{c, 0})
				}
			}
			for p := 0; p < k && len(list) < 2*k+len(r.atoms[a].rows); p++ {
				j, d := t.Neighbor(i, p)
				if j < 0 {
					break
				}
				for _, c := range r.atoms[atoms[j]].rows {
					list = append(list, neighbor{c, d})
				}
			}
			slices.SortFunc(list, func(a, b neighbor) int {
				return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.row, b.row))
			})
			for p, v := range list[:min(k, len(list))] {
				out.Index[int(row)*k+p], out.Distance[int(row)*k+p] = v.row, v.distance
			}
		}
	}
	r.result.KNN = out
}

// keepLayout records the global stage's layout; copies share their place. Rows that were clusters from the start stay at
// the origin.
func (r *run) keepLayout(atoms []int32, at []float32, dim int) {
	r.result.LayoutDim = dim
	r.result.Layout = make([]float32, r.in.N*dim)
	for i, a := range atoms {
		for _, row := range r.atoms[a].rows {
			copy(r.result.Layout[int(row)*dim:(int(row)+1)*dim], at[i*dim:(i+1)*dim])
		}
	}
}

// keepGlobal records each row's best component of the global stage, -1 for rows that were clusters from the start.
func (r *run) keepGlobal(atoms []int32, shares [][]share) {
	r.result.Global = make([]int32, r.in.N)
	for i := range r.result.Global {
		r.result.Global[i] = -1
	}
	for i, a := range atoms {
		for _, row := range r.atoms[a].rows {
			r.result.Global[row] = shares[i][0].component
		}
	}
}
