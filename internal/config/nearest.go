package config

import "strings"

// Nearest returns the candidate with the fewest edits to a name that isn't one: letters inserted, deleted,
// replaced, or swapped with their neighbor; case, dashes, dots and underscores don't count. A dotted candidate is
// compared by its last part too, for one edit more, since people leave the section away. Of equals the first wins;
// "" if there are no candidates.
func Nearest(name string, candidates []string) string {
	best, least := "", -1
	plain := strings.NewReplacer("-", "_", ".", "_")
	name = plain.Replace(strings.ToLower(name))
	for _, c := range candidates {
		lower := strings.ToLower(c)
		d := edits(name, plain.Replace(lower))
		if i := strings.LastIndexByte(lower, '.'); i >= 0 {
			d = min(d, 1+edits(name, plain.Replace(lower[i+1:])))
		}
		if least < 0 || d < least {
			best, least = c, d
		}
	}
	return best
}

// edits is the optimal string alignment distance of two texts, by runes.
func edits(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, previous, current := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range s {
		current[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, previous[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				current[j+1] = min(current[j+1], before[j-1]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(t)]
}
