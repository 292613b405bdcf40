package clustering

import (
	"cmp"
	"context"
	"slices"

	"github.com/aerie-rag/aerie/internal/clustering/gmm"
	"github.com/aerie-rag/aerie/internal/clustering/random"
)

// floor is what is added to variances, relative to the mean variance of the layout. With fewer rows than coordinates a
// component's covariance is flat, and the floor decides how much BIC likes such components: 1e-5 gives clusters of about
// six or seven, as the reference's absolute 1e-6 does; 1e-3 gives clusters of twelve.
const floor = 1e-5

// referenceMost is the most components of the reference's search.
const referenceMost = 49

// mixture fits a mixture to the projected rows and returns their shares.
func (s *stage) mixture(ctx context.Context, at gmm.Data, gone lost, lo, hi int) ([][]share, int, error) {
	var out [][]share
	var k int
	err := s.timed("mixture", func() (err error) {
		if gone.count == 0 {
			out, k, err = s.soft(ctx, at, lo, hi)
			return err
		}
		var places []int32
		for i, is := range gone.is {
			if !is {
				places = append(places, int32(i))
			}
		}
		found, k2, err := s.soft(ctx, pick(at, places), lo, hi)
		out, k = make([][]share, at.N), k2
		for i, list := range found {
			out[places[i]] = list
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if gone.count > 0 {
		s.adopt(out, gone, k)
	}
	if s.root {
		s.run.keepGlobal(s.all, out)
	}
	return out, k, nil
}

// soft fits a mixture to points and returns their shares and its number of components.
func (s *stage) soft(ctx context.Context, at gmm.Data, lo, hi int) ([][]share, int, error) {
	if s.run.cfg.Mode == Flat && s.root && lo > wholeMixture {
		return s.nested(ctx, at, min(lo, at.N))
	}
	model, err := s.fit(ctx, at, lo, hi)
	if err != nil {
		return nil, 0, err
	}
	out := make([][]share, at.N)
	return out, model.K, model.Members(ctx, s.machine, at, func(row int, members []gmm.Member) {
		out[row] = joined(members, s.run.cfg.Threshold)
	})
}

// joined returns the components that a row joins: its best first, the lower one among equals, then those over the
// threshold, falling.
func joined(members []gmm.Member, threshold float64) []share {
	best := 0
	for i, m := range members {
		if m.Posterior > members[best].Posterior {
			best = i
		}
	}
	out := []share{{members[best].Component, members[best].Posterior}}
	for i, m := range members {
		if i != best && m.Posterior > threshold {
			out = append(out, share{m.Component, m.Posterior})
		}
	}
	slices.SortStableFunc(out[1:], func(a, b share) int { return cmp.Compare(b.posterior, a.posterior) })
	return out
}

// fit chooses the number of components and fits them.
func (s *stage) fit(ctx context.Context, at gmm.Data, lo, hi int) (*gmm.Model, error) {
	seed := random.Key(s.group.key, keyMixture)
	n := at.N
	lo, hi = min(lo, n), min(hi, n)
	if s.run.cfg.Mode == Reference {
		// The reference searches 1 to 49, whatever the token cap; the cap is kept afterwards.
		first, last := 1, min(referenceMost, n-1)
		if s.root {
			first = min(2, last)
		}
		if room := s.group.room; room > 0 {
			last = max(first, min(last, room))
		}
		o := gmm.Reference(seed)
		return gmm.Search(ctx, s.machine, at, gmm.Every(first, last), func(int) gmm.Options { return o })
	}
	options := func(k int) gmm.Options { return fitting(at, random.Key(seed, uint64(k))) }
	switch {
	case s.run.cfg.Mode == Flat && s.root:
		return gmm.Fit(ctx, s.machine, at, min(max(lo, 2), n), options(lo))
	case n > bicRows:
		k := min(max(n/55, 8), fanOut, hi)
		return gmm.Fit(ctx, s.machine, at, k, options(k))
	}
	first, last := max(lo, 1), min(hi, max(fanOut, lo))
	if s.run.cfg.Mode == Flat {
		// Only what is over the cap is split again, and no further than it must be, with a little room.
		first = min(max(lo, (4*lo+2)/3), n)
		last = first
	}
	return gmm.Search(ctx, s.machine, at, gmm.Coarse(min(first, last), last), options)
}

// fitting returns how mixtures are fitted outside the reference mode.
func fitting(at gmm.Data, seed uint64) gmm.Options {
	return gmm.Options{Seed: seed, Steps: 50, Tolerance: 1e-3, Floor: floor * max(at.Variance(), 1e-12), Lloyd: 10}
}

// adopt gives the rows without a place the component whose rows they are most like.
func (s *stage) adopt(out [][]share, gone lost, k int) {
	d := s.rows.Dim
	sums, row := make([]float64, k*d), make([]float32, d)
	for i := range out {
		if gone.is[i] {
			continue
		}
		s.rows.At(row, i)
		c := int(out[i][0].component)
		for t, v := range row {
			sums[c*d+t] += float64(v)
		}
	}
	centers := centersOf(sums, k, d)
	for i := range out {
		if !gone.is[i] {
			continue
		}
		s.rows.At(row, i)
		best, at := -2.0, 0
		for c := range k {
			if v := dot(row, centers[c*d:(c+1)*d]); v > best {
				best, at = v, c
			}
		}
		out[i] = []share{{int32(at), 1}}
	}
}

// parts turns shares into groups. Guests of the group keep their place as guests, with the product of their shares.
func (s *stage) parts(shares [][]share, k int) []group {
	at := make([]group, k)
	threshold := s.run.cfg.Threshold
	for i, list := range shares {
		if i < len(s.group.atoms) {
			a := s.group.atoms[i]
			at[list[0].component].atoms = append(at[list[0].component].atoms, a)
			for _, v := range list[1:] {
				at[v.component].guests = append(at[v.component].guests, guest{a, v.posterior})
			}
			continue
		}
		g := s.group.guests[i-len(s.group.atoms)]
		for _, v := range list {
			if v.posterior > threshold {
				at[v.component].guests = append(at[v.component].guests, guest{g.atom, g.share * v.posterior})
			}
		}
	}
	var out []group
	for c := range at {
		if len(at[c].atoms) == 0 {
			continue // only guests: they have their place elsewhere
		}
		p := &at[c]
		p.depth, p.key = s.group.depth+1, random.Key(s.group.key, uint64(c)<<8|keyPart)
		p.local = s.run.cfg.Mode == Reference && !s.root || len(s.all) <= bicRows && !s.root || len(s.all) <= tinyRows
		if room := s.group.room; room > 0 {
			p.room = max(1, room*len(p.atoms)/len(s.group.atoms))
		}
		out = append(out, *p)
	}
	return out
}
