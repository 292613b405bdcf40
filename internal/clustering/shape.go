package clustering

import (
	"cmp"
	"container/heap"
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/knn"
	"github.com/aerie-rag/aerie/internal/clustering/random"
	"github.com/aerie-rag/aerie/internal/clustering/sphere"
)

// shape is the clusters while they are brought within the rules: first each atom is in one cluster only.
type shape struct {
	run      *run
	clusters []*set
	homes    []int32 // each atom's cluster
	guests   []visit // further places, strongest first
	stopped  string
}

// set is one cluster.
type set struct {
	place  int32
	atoms  []int32
	rows   int
	tokens int
	gone   bool // merged into another
	into   *set // which
}

// visit is an atom that may join a cluster beside its own.
type visit struct {
	guest
	cluster int32
}

func (r *run) shape(groups []group) *shape {
	s := &shape{run: r, homes: make([]int32, len(r.atoms))}
	for _, g := range groups {
		c := s.add(g.atoms)
		for _, v := range g.guests {
			s.guests = append(s.guests, visit{v, c.place})
		}
	}
	return s
}

// add makes a cluster of atoms.
func (s *shape) add(atoms []int32) *set {
	c := &set{place: int32(len(s.clusters))}
	s.clusters = append(s.clusters, c)
	s.fill(c, atoms)
	return c
}

func (s *shape) fill(c *set, atoms []int32) {
	slices.Sort(atoms)
	atoms = slices.Compact(atoms) // clusters that grow may share rows
	c.atoms, c.rows, c.tokens = atoms, 0, 0
	for _, a := range atoms {
		s.homes[a] = c.place
		c.rows += len(s.run.atoms[a].rows)
		c.tokens += s.run.atoms[a].tokens
	}
}

// live returns the clusters that haven't been merged away.
func (s *shape) live() []*set {
	out := make([]*set, 0, len(s.clusters))
	for _, c := range s.clusters {
		if !c.gone {
			out = append(out, c)
		}
	}
	return out
}

// settle merges and splits clusters until the rules hold, or says why they can't.
func (s *shape) settle(ctx context.Context) error {
	r, n := s.run, s.run.in.N
	count := len(s.clusters)
	if r.cfg.Mode != Reference {
		single := func(c *set) bool { return c.rows == 1 }
		if err := s.merge(ctx, &count, 2, single); err != nil {
			return err
		}
	}
	if most := r.cfg.MaxClusters; most > 0 {
		if err := s.merge(ctx, &count, max(most, r.least), nil); err != nil {
			return err
		}
	}
	if err := s.merge(ctx, &count, 7*n/10, nil); err != nil {
		return err
	}
	if err := s.divide(ctx, r.least); err != nil {
		return err
	}
	count = len(s.live())
	if !shrinks(count, n) {
		s.stopped = notShrinking(n, count)
	} else if count < 2 {
		s.stopped = notShrinking(n, n)
	}
	return nil
}

// merge joins the smallest clusters (those that which accepts; nil: all) to the most similar cluster with room for them,
// until count is at most most or nothing more fits. Each round takes the clusters in order of size and finds partners
// among the nearest centroids; a cluster takes part in one merger a round.
func (s *shape) merge(ctx context.Context, count *int, most int, which func(*set) bool) error {
	limit := s.run.cfg.MaxClusterTokens
	for *count > most {
		live := s.live()
		order := slices.Clone(live)
		slices.SortFunc(order, func(a, b *set) int {
			return cmp.Or(cmp.Compare(a.rows, b.rows), cmp.Compare(a.tokens, b.tokens), cmp.Compare(a.place, b.place))
		})
		order = slices.DeleteFunc(order, func(c *set) bool { return which != nil && !which(c) })
		if len(order) == 0 || len(live) < 2 {
			return nil
		}
		// More than these can't be needed in this round.
		order = order[:min(len(order), 2*(*count-most)+64)]
		near, err := s.near(ctx, live, order)
		if err != nil {
			return err
		}
		merged := 0
		busy := make(map[int32]bool)
		for _, c := range order {
			if *count-merged <= most {
				break
			}
			if busy[c.place] {
				continue
			}
			if p := near.partner(c, limit, busy); p != nil {
				busy[c.place], busy[p.place] = true, true
				s.join(p, c)
				merged++
			}
		}
		*count -= merged
		if merged == 0 {
			return nil
		}
	}
	return nil
}

// join moves b's atoms into a.
func (s *shape) join(a, b *set) {
	s.fill(a, append(slices.Clone(a.atoms), b.atoms...))
	b.gone, b.into, b.atoms = true, a, nil
}

// final returns the cluster that one has been merged into, itself if it hasn't.
func (s *shape) final(place int32) *set {
	c := s.clusters[place]
	for c.gone {
		c = c.into
	}
	return c
}

// nearness finds the clusters most similar to one.
type nearness struct {
	live  []*set
	at    map[int32]int // a cluster's place in live
	query map[int32]int // a cluster's row in table
	rows  kernel.Rows   // centroids
	table *knn.Table
	least int // the fewest tokens of a live cluster
}

// near finds the live clusters nearest to each of some.
func (s *shape) near(ctx context.Context, live, some []*set) (*nearness, error) {
	d := s.run.in.D
	sums := make([]float64, d)
	row := make([]float32, d)
	x := make([]float32, len(live)*d)
	n := &nearness{live: live, at: make(map[int32]int, len(live)), query: make(map[int32]int, len(some)), rows: kernel.Rows{X: x, Dim: d}, least: live[0].tokens}
	for i, c := range live {
		n.at[c.place] = i
		n.least = min(n.least, c.tokens)
		clear(sums)
		for _, a := range c.atoms {
			rows := s.run.atoms[a].rows
			s.run.rows.At(row, int(rows[0]))
			for t, v := range row {
				sums[t] += float64(float64(len(rows)) * float64(v))
			}
		}
		sphere.Normalize(x[i*d:(i+1)*d], sums)
	}
	queries := make([]int32, len(some))
	for i, c := range some {
		n.query[c.place] = i
		queries[i] = int32(n.at[c.place])
	}
	var err error
	n.table, err = knn.Nearest(ctx, s.run.machine, n.rows, queries, 15)
	return n, err
}

// partner returns the most similar cluster that has room for c and isn't busy, nil if there is none.
func (n *nearness) partner(c *set, limit int, busy map[int32]bool) *set {
	if c.tokens+n.least > limit {
		return nil
	}
	fits := func(p *set) bool { return p != c && !p.gone && !busy[p.place] && p.tokens+c.tokens <= limit }
	i := n.at[c.place]
	for p := range n.table.K {
		if j, _ := n.table.Neighbor(n.query[c.place], p); j >= 0 && fits(n.live[j]) {
			return n.live[j]
		}
	}
	// None of the nearest: look at all.
	d := n.rows.Dim
	var best *set
	likeness := 0.0
	for j, p := range n.live {
		if !fits(p) {
			continue
		}
		if v := dot(n.rows.X[i*d:(i+1)*d], n.rows.X[j*d:(j+1)*d]); best == nil || v > likeness {
			best, likeness = p, v
		}
	}
	return best
}

// divide splits the largest clusters in two until there are least.
func (s *shape) divide(ctx context.Context, least int) error {
	queue := &bySize{}
	live := s.live()
	for _, c := range live {
		if c.rows > 1 {
			queue.sets = append(queue.sets, c)
		}
	}
	heap.Init(queue)
	for count := len(live); count < least && queue.Len() > 0; count++ {
		big := heap.Pop(queue).(*set)
		part, err := s.halve(ctx, big)
		if err != nil {
			return err
		}
		for _, c := range []*set{big, part} {
			if c.rows > 1 {
				heap.Push(queue, c)
			}
		}
	}
	return nil
}

// bySize is a heap of clusters, the one with the most rows first.
type bySize struct{ sets []*set }

func (q *bySize) Len() int { return len(q.sets) }
func (q *bySize) Less(i, j int) bool {
	a, b := q.sets[i], q.sets[j]
	return a.rows > b.rows || a.rows == b.rows && a.place < b.place
}
func (q *bySize) Swap(i, j int) { q.sets[i], q.sets[j] = q.sets[j], q.sets[i] }
func (q *bySize) Push(c any)    { q.sets = append(q.sets, c.(*set)) }
func (q *bySize) Pop() any {
	last := q.sets[len(q.sets)-1]
	q.sets = q.sets[:len(q.sets)-1]
	return last
}

// halve moves a part of a cluster to a new one: by 2-means, or in order where that would leave a single row.
func (s *shape) halve(ctx context.Context, c *set) (*set, error) {
	r := s.run
	if len(c.atoms) == 1 {
		a := c.atoms[0]
		rows := r.atoms[a].rows
		half := cut(rows, func(i int) int { return 1 }, len(rows), 2)
		r.atoms[a] = wholeAtom(r.in, half[0])
		r.atoms = append(r.atoms, wholeAtom(r.in, half[1]))
		s.homes = append(s.homes, 0)
		s.fill(c, c.atoms)
		return s.add([]int32{int32(len(r.atoms) - 1)}), nil
	}
	rows, weight := r.view(c.atoms)
	label, _, err := sphere.KMeans(ctx, r.machine.One(), rows, weight, 2, random.Key(r.cfg.Seed, uint64(c.place)<<8|keySphere), 10)
	if err != nil {
		return nil, err
	}
	var parts [2][]int32
	var count [2]int
	for i, a := range c.atoms {
		parts[label[i]] = append(parts[label[i]], a)
		count[label[i]] += len(r.atoms[a].rows)
	}
	if min(count[0], count[1]) < min(2, c.rows/2) {
		halves := cut(c.atoms, func(i int) int { return len(r.atoms[c.atoms[i]].rows) }, c.rows, 2)
		parts = [2][]int32{slices.Clone(halves[0]), slices.Clone(halves[1])}
	}
	s.fill(c, parts[0])
	return s.add(parts[1]), nil
}
