package clustering

import (
	"context"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/parallel"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

const (
	// bicRows is the most rows whose number of clusters is chosen by BIC, which never stops falling for more.
	bicRows = 2000
	// fanOut is the most parts of one split.
	fanOut = 64
	// maxDepth bounds how often a set is split again before it is cut in order.
	maxDepth = 12
	// sharedRows is the size from which a set gets all workers to itself; smaller ones run side by side.
	sharedRows = 4096
)

// group is a set of atoms on its way to being clusters.
type group struct {
	atoms []int32 // that have their best place here
	// guests are atoms whose posterior here is over the threshold but whose best place is elsewhere.
	guests []guest
	depth  int
	local  bool // the local stage has run
	key    uint64
	room   int // the most clusters to make of it, 0 for any
}

// guest is an atom in a second place, with the product of its posteriors on the way there.
type guest struct {
	atom  int32
	share float64
}

// partition splits the atoms until every group is a cluster under the cap.
func (r *run) partition(ctx context.Context) ([]group, error) {
	root := group{key: random.Key(r.cfg.Seed, 0), room: r.cfg.MaxClusters}
	var done []group
	for i, a := range r.atoms {
		if a.alone {
			done = append(done, group{atoms: []int32{int32(i)}})
		} else {
			root.atoms = append(root.atoms, int32(i))
		}
	}
	if len(root.atoms) < 2 {
		if len(root.atoms) == 1 {
			done = append(done, root)
		}
		return done, nil
	}
	parts, err := r.split(ctx, r.machine, root, true)
	if err != nil {
		return nil, err
	}
	end := r.watch.stage("local")
	defer end()
	waiting := parts
	for len(waiting) > 0 {
		var next []group
		var todo []group
		for _, g := range waiting {
			if r.finished(g) {
				done = append(done, g)
			} else {
				todo = append(todo, g)
			}
		}
		results, err := r.splitAll(ctx, todo)
		if err != nil {
			return nil, err
		}
		for _, parts := range results {
			next = append(next, parts...)
		}
		waiting = next
	}
	return done, nil
}

// splitAll splits each group, the large ones one after the other with all workers, the others side by side.
func (r *run) splitAll(ctx context.Context, todo []group) ([][]group, error) {
	results := make([][]group, len(todo))
	errs := make([]error, len(todo))
	var small []int
	for i, g := range todo {
		if len(g.atoms) < sharedRows {
			small = append(small, i)
			continue
		}
		if results[i], errs[i] = r.split(ctx, r.machine, g, false); errs[i] != nil {
			return nil, errs[i]
		}
	}
	err := parallel.For(ctx, r.machine.Workers, len(small), func(_, at int) {
		i := small[at]
		results[i], errs[i] = r.split(ctx, r.machine.One(), todo[i], false)
	})
	if err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// finished reports whether a group is a cluster.
func (r *run) finished(g group) bool {
	if len(g.atoms) == 1 {
		return true
	}
	if r.tokens(g.atoms) > r.cfg.MaxClusterTokens {
		return false
	}
	switch r.cfg.Mode {
	case Raptor, Reference:
		return g.local || len(g.atoms) <= r.cfg.Dim+1 || g.room == 1
	}
	return true
}

func (r *run) tokens(atoms []int32) int {
	t := 0
	for _, a := range atoms {
		t += r.atoms[a].tokens
	}
	return t
}

// view returns the vectors of a list of atoms, and how many rows each stands for (nil: one each).
func (r *run) view(atoms []int32) (kernel.Rows, []float64) {
	places := make([]int32, len(atoms))
	var weight []float64
	for i, a := range atoms {
		rows := r.atoms[a].rows
		places[i] = rows[0]
		if len(rows) > 1 && weight == nil {
			weight = make([]float64, len(atoms))
			for j := range weight {
				weight[j] = 1
			}
		}
		if weight != nil {
			weight[i] = float64(len(rows))
		}
	}
	return r.rows.Subset(places), weight
}

// split makes parts of a group. It never fails to: a group that no model can split is cut in order, and a part is always
// smaller than the group, or is marked as finished with.
func (r *run) split(ctx context.Context, m kernel.Machine, g group, root bool) ([]group, error) {
	all := g.atoms
	if len(g.guests) > 0 {
		all = make([]int32, 0, len(g.atoms)+len(g.guests))
		all = append(all, g.atoms...)
		for _, v := range g.guests {
			all = append(all, v.atom)
		}
	}
	over := r.tokens(g.atoms) > r.cfg.MaxClusterTokens
	if g.depth >= maxDepth {
		return r.cut(g), nil
	}
	s := &stage{run: r, machine: m, group: g, all: all, root: root}
	s.rows, s.weight = r.view(all)
	shares, k, err := s.shares(ctx)
	if err != nil {
		return nil, err
	}
	parts := s.parts(shares, k)
	if len(parts) == 1 {
		if over {
			return r.cut(g), nil
		}
		parts[0].local = true
	}
	return parts, nil
}

// cut splits a group in order of its atoms, without looking at vectors: the split that always works.
func (r *run) cut(g group) []group {
	var out []group
	for _, part := range cut(g.atoms, func(i int) int { return r.atoms[g.atoms[i]].tokens }, r.cfg.MaxClusterTokens, 2) {
		out = append(out, group{atoms: part, depth: g.depth + 1, local: true})
	}
	return out
}
