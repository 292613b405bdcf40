package clustering

import (
	"context"
	"math"

	"github.com/aerie-rag/aerie/internal/clustering/gmm"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/knn"
	"github.com/aerie-rag/aerie/internal/clustering/random"
	"github.com/aerie-rag/aerie/internal/clustering/sphere"
	"github.com/aerie-rag/aerie/internal/clustering/umap"
)

const (
	// neighbors of the fuzzy graph.
	neighbors = 15
	// localNeighbors are those of the reference's local stage.
	localNeighbors = 10
	// tinyRows is the most rows that are clustered as they are, without a projection.
	tinyRows = 11
	// plainRows is the most rows of a local stage that get principal components instead of a layout.
	plainRows = 44
	// kmeansRounds is the most rounds of the kmeans mode.
	kmeansRounds = 50
	// kmeansRows is the most rows that the kmeans mode clusters at once; more are first split into that many.
	kmeansRows = 20_000
)

// The parts of a group's key.
const (
	keyLayout = iota + 1
	keyMixture
	keySphere
	keyPart
	keyStart
	keyLists
)

// stage is one split of one group.
type stage struct {
	run     *run
	machine kernel.Machine
	group   group
	all     []int32 // the group's atoms, then its guests
	rows    kernel.Rows
	weight  []float64
	root    bool
}

// share is one row's place in a component.
type share struct {
	component int32
	posterior float64
}

// timed runs f as a stage of the whole run if this is the global stage.
func (s *stage) timed(name string, f func() error) error {
	if s.root {
		defer s.run.watch.stage(name)()
	}
	return f()
}

// progress returns the hook for a long loop, nil when nobody asks.
func (s *stage) progress(name string) func(done, total int) {
	if !s.root || s.run.cfg.Progress == nil {
		return nil
	}
	return func(done, total int) { s.run.watch.progress(name, done, total) }
}

// shares returns each row's components above the threshold and always its best, best first, and their number.
func (s *stage) shares(ctx context.Context) ([][]share, int, error) {
	n := len(s.all)
	lo, hi := s.bounds()
	switch {
	case n <= tinyRows && (s.root || s.run.cfg.Mode != Reference):
		return s.tiny(ctx, lo, hi)
	case s.run.cfg.Mode == KMeans:
		return s.kmeans(ctx)
	case n <= tinyRows:
		return s.sphere(ctx, lo, kmeansRounds)
	}
	at, lost, err := s.project(ctx)
	if err != nil {
		return nil, 0, err
	}
	if 2*lost.count > n {
		// Most rows have nothing in common with any other: a layout would be noise.
		return s.sphere(ctx, max(lo, min(hi, (n+6)/7)), kmeansRounds)
	}
	return s.mixture(ctx, at, lost, lo, hi)
}

// bounds returns the least and the most components to look for.
func (s *stage) bounds() (lo, hi int) {
	r, n := s.run, len(s.group.atoms)
	lo = quotient(r.tokens(s.group.atoms), r.cfg.MaxClusterTokens)
	if t := r.cfg.target(); t > 0 {
		rows := 0
		for _, a := range s.group.atoms {
			rows += len(r.atoms[a].rows)
		}
		lo = max(lo, quotient(rows, t))
	}
	if s.root {
		lo = max(lo, 2)
	}
	hi = max(1, n/4)
	if s.root {
		hi = max(2, hi)
	}
	if room := s.group.room; room > 0 {
		hi = min(hi, room)
	}
	hi = max(hi, lo)
	return min(lo, n), min(hi, n)
}

// tiny clusters a few rows as they are: k-means with the number of clusters that has the best silhouette.
func (s *stage) tiny(ctx context.Context, lo, hi int) ([][]share, int, error) {
	n := len(s.all)
	lo = min(max(lo, 2), n)
	hi = min(max(lo, min(n/3, max(hi, n/4))), n)
	best, bestScore := []int32(nil), math.Inf(-1)
	for k := lo; k <= hi; k++ {
		label, _, err := sphere.KMeans(ctx, s.machine, s.rows, s.weight, k, random.Key(s.group.key, keySphere), kmeansRounds)
		if err != nil {
			return nil, 0, err
		}
		if score := silhouette(s.rows, label, k); best == nil || score > bestScore {
			best, bestScore = label, score
		}
	}
	return hard(best), hi, nil
}

// silhouette returns the mean over rows of (b-a)/max(a,b), with a the mean distance to the row's own cluster and b the
// least mean distance to another (Rousseeuw, 1987).
func silhouette(rows kernel.Rows, label []int32, k int) float64 {
	n, d := rows.Len(), rows.Dim
	x := make([]float32, n*d)
	for i := range n {
		rows.At(x[i*d:(i+1)*d], i)
	}
	var total float64
	for i := range n {
		sum, count := make([]float64, k), make([]int, k)
		for j := range n {
			if j != i {
				var dot float64
				for t := range d {
					dot += float64(float64(x[i*d+t]) * float64(x[j*d+t]))
				}
				sum[label[j]] += 1 - dot
				count[label[j]]++
			}
		}
		if count[label[i]] == 0 {
			continue // a cluster of one counts 0
		}
		a, b := sum[label[i]]/float64(count[label[i]]), math.Inf(1)
		for c := range k {
			if c != int(label[i]) && count[c] > 0 {
				b = min(b, sum[c]/float64(count[c]))
			}
		}
		if m := max(a, b); m > 0 && !math.IsInf(b, 1) {
			total += (b - a) / m
		}
	}
	return total / float64(n)
}

func hard(label []int32) [][]share {
	out := make([][]share, len(label))
	flat := make([]share, len(label))
	for i, l := range label {
		flat[i] = share{l, 1}
		out[i] = flat[i : i+1]
	}
	return out
}

// sphere clusters the vectors themselves into k clusters.
func (s *stage) sphere(ctx context.Context, k, rounds int) ([][]share, int, error) {
	var label []int32
	err := s.timed("k-means", func() (err error) {
		label, _, err = sphere.KMeans(ctx, s.machine, s.rows, s.weight, max(k, 2), random.Key(s.group.key, keySphere), rounds)
		return err
	})
	return hard(label), max(k, 2), err
}

// kmeans is a stage of the kmeans mode.
func (s *stage) kmeans(ctx context.Context) ([][]share, int, error) {
	n := len(s.all)
	if n > kmeansRows {
		return s.sphere(ctx, (n+kmeansRows/2-1)/(kmeansRows/2), 10)
	}
	lo, _ := s.bounds()
	return s.sphere(ctx, lo, kmeansRounds)
}

// lost are the rows without an edge in the graph, which the layout can't place.
type lost struct {
	is    []bool
	count int
}

// project returns coordinates, n x dim in float64.
func (s *stage) project(ctx context.Context) (gmm.Data, lost, error) {
	r, n := s.run, len(s.all)
	dim := min(r.cfg.Dim, n-2)
	var at []float32
	gone := lost{is: make([]bool, n)}
	seed := random.Key(s.group.key, keyLayout)
	if !s.root && n <= plainRows && r.cfg.Mode != Reference {
		var err error
		if at, err = umap.Principal(ctx, s.machine, s.rows, dim, seed); err != nil {
			return gmm.Data{}, gone, err
		}
	} else {
		graph, err := s.graph(ctx)
		if err != nil {
			return gmm.Data{}, gone, err
		}
		for i := range n {
			if graph.Offset[i] == graph.Offset[i+1] {
				gone.is[i] = true
				gone.count++
			}
		}
		if at, err = s.layout(ctx, graph, dim, seed); err != nil {
			return gmm.Data{}, gone, err
		}
	}
	x := make([]float64, len(at))
	for i, v := range at {
		x[i] = float64(v)
	}
	return gmm.Data{X: x, N: n, Dim: dim, Weight: s.weight}, gone, nil
}

// graph finds neighbors and joins them to a graph.
func (s *stage) graph(ctx context.Context) (*umap.Graph, error) {
	k, n := neighbors, len(s.all)
	if s.run.cfg.Mode == Reference {
		k = max(2, int(math.Sqrt(float64(n-1))))
		if !s.root {
			k = localNeighbors
		}
	}
	var table *knn.Table
	err := s.timed("neighbors", func() (err error) {
		var recall knn.Recall
		table, recall, err = knn.Find(ctx, s.machine, s.rows, k, random.Key(s.group.key, keyLists), s.progress("neighbors"))
		if s.root {
			s.run.result.Recall = recall.Mean
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.root {
		s.run.keepNeighbors(s.all, table)
	}
	var graph *umap.Graph
	err = s.timed("graph", func() (err error) {
		graph, err = umap.Fuzzy(ctx, s.machine, table)
		return err
	})
	return graph, err
}

// layout places the vertices of a graph.
func (s *stage) layout(ctx context.Context, graph *umap.Graph, dim int, seed uint64) ([]float32, error) {
	var start, at []float32
	err := s.timed("start", func() (err error) {
		start, err = umap.Principal(ctx, s.machine, s.rows, dim, random.Key(seed, keyStart))
		return err
	})
	if err != nil {
		return nil, err
	}
	err = s.timed("layout", func() (err error) {
		at, err = umap.Layout(ctx, s.machine, graph, start, umap.Options{Dim: dim, Epochs: umap.Epochs, Seed: seed,
			Curve: umap.DefaultCurve(), Progress: s.progress("layout")})
		return err
	})
	if err == nil && s.root {
		s.run.keepLayout(s.all, at, dim)
	}
	return at, err
}
