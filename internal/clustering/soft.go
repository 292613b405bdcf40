package clustering

import (
	"cmp"
	"slices"
)

// soften adds the further places, strongest first, while the cap and a tenth of all tokens allow, and returns the clusters
// in their final form.
func (s *shape) soften() [][]int {
	r := s.run
	for i := range s.guests {
		s.guests[i].cluster = s.final(s.guests[i].cluster).place
	}
	slices.SortFunc(s.guests, func(a, b visit) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.atom, b.atom), cmp.Compare(a.cluster, b.cluster))
	})
	total := 0
	for _, t := range r.in.Tokens {
		total += t
	}
	extra := make([][]int32, len(s.clusters))
	spent := 0
	for _, v := range s.guests {
		c, t := s.clusters[v.cluster], r.atoms[v.atom].tokens
		if s.homes[v.atom] == v.cluster || c.tokens+t > r.cfg.MaxClusterTokens || 10*(spent+t) > total ||
			r.atoms[v.atom].alone || slices.Contains(extra[v.cluster], v.atom) {
			continue
		}
		extra[v.cluster] = append(extra[v.cluster], v.atom)
		c.tokens += t
		spent += t
	}
	var out [][]int
	for _, c := range s.live() {
		out = append(out, r.expand(c.atoms, extra[c.place]))
	}
	// Two clusters can only be equal through guests. Without them a cluster is unlike all others, since those have other
	// atoms of their own.
	seen := make(map[string]bool, len(out))
	for i, c := range s.live() {
		name := fingerprint(out[i])
		if seen[name] {
			out[i] = r.expand(c.atoms, nil)
			name = fingerprint(out[i])
		}
		seen[name] = true
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

// expand returns the rows of atoms, ascending.
func (r *run) expand(lists ...[]int32) []int {
	var out []int
	for _, list := range lists {
		for _, a := range list {
			for _, row := range r.atoms[a].rows {
				out = append(out, int(row))
			}
		}
	}
	slices.Sort(out)
	return out
}

func fingerprint(rows []int) string {
	b := make([]byte, 0, 4*len(rows))
	for _, v := range rows {
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	return string(b)
}
