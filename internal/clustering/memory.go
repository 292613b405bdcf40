package clustering

import "github.com/aerie-rag/aerie/internal/clustering/knn"

// affordable estimates the memory of a run beside the input's vectors and refuses more than the limit.
func (r *run) affordable() error {
	need := estimate(r.cfg, r.in.N, r.in.D, r.machine.Workers)
	if limit := r.cfg.MemoryBytes; limit > 0 && need > limit {
		return &MemoryError{Rows: r.in.N, Dim: r.in.D, Need: need, Limit: limit}
	}
	return nil
}

// estimate returns the bytes that a run over n rows of d numbers needs at its peak, beside the vectors.
func estimate(cfg Config, n, d, workers int) int64 {
	rows := int64(n)
	k := int64(neighbors)
	if cfg.Mode == Reference {
		k = max(2, int64(isqrt(n-1)))
	}
	k = min(k, max(rows-1, 0))
	stride := int64(cfg.Dim+7) / 8 * 8
	base := rows * (8 + 16 + 28 + 40 + 64 + 80) // norms, hashes, copies, atoms, groups, clusters
	table := rows * k * 8                       // neighbors while they are found
	kept := rows * k * 8                        // and in the result
	edges := rows * k * 17 / 10                 // of the symmetric graph; 1.4 on real vectors
	graph := edges*8 + rows*8
	building := graph + 2*(rows*k*8+rows*8) // both directions beside it
	layout := graph + edges*4 + 4*rows*stride*4
	mixture := rows*int64(cfg.Dim)*(4+8) + rows*(24+16+32) + rows*8*5
	scratch := int64(workers) * int64(d) * 4 * 3 * 1152
	if float64(n)*float64(n)*float64(d) > knn.ExactWork {
		// Inverted lists, then the neighborhoods of a round of descent.
		table += max(rows*knn.Probes*16, rows*k*20)
	}
	if cfg.Mode == KMeans {
		// A fifth as many centers as rows, also packed; at the end the clusters' centers.
		return base + rows*24 + scratch + 3*min(rows, kmeansRows)*int64(d)*4/5 + rows*int64(d)*4/5
	}
	return base + kept + scratch + max(table+building, layout, graph+mixture)
}

// isqrt returns the integer square root.
func isqrt(n int) int {
	r := 0
	for (r+1)*(r+1) <= n {
		r++
	}
	return r
}
