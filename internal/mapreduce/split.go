package mapreduce

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// split cuts a text into pieces of at most budget tokens each: at the ends of sentences, else between words, else
// between runes. Joined, the pieces are the text but for white space at their ends. A rune is never cut, even if it has
// more tokens than the budget.
func (c Config) split(text string, budget int) []string {
	var pieces []string
	for _, unit := range c.gather(c.sentences(text), budget) {
		if c.Counter.Count(unit) <= budget {
			pieces = append(pieces, unit)
			continue
		}
		for _, run := range c.gather(words(unit), budget) {
			pieces = append(pieces, c.cutRunes(run, budget)...)
		}
	}
	kept := pieces[:0]
	for _, p := range pieces {
		if p = strings.TrimSpace(p); p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// gather joins neighbors as long as they fit. A unit over the budget stays alone.
func (c Config) gather(units []string, budget int) []string {
	var out []string
	var piece string
	size := 0
	for _, u := range units {
		n := c.Counter.Count(u)
		// The tokens of the whole may exceed the sum of its parts by a token, so the whole is counted when it is close.
		joined := size + n
		if piece != "" && joined > budget*9/10 {
			joined = c.Counter.Count(piece + u)
		}
		if piece != "" && joined > budget {
			out = append(out, piece)
			piece, joined = "", n
		}
		piece, size = piece+u, joined
	}
	if piece != "" {
		out = append(out, piece)
	}
	return out
}

// words cuts before each run of white space.
func words(s string) []string {
	var out []string
	start, space := 0, true
	for i, r := range s {
		isSpace := unicode.IsSpace(r)
		if isSpace && !space {
			out = append(out, s[start:i])
			start = i
		}
		space = isSpace
	}
	return append(out, s[start:])
}

// cutRunes cuts a text without white space. Tokenizers take long on such text, so no more than a window of it is
// counted at a time.
func (c Config) cutRunes(s string, budget int) []string {
	if c.Counter.Count(s) <= budget {
		return []string{s}
	}
	var out []string
	for s != "" {
		n := prefix(s, 4*max(budget, 1))
		for c.Counter.Count(s[:n]) > budget {
			half := prefix(s, utf8.RuneCountInString(s[:n])/2)
			if half == 0 {
				break
			}
			n = half
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// prefix returns the length in bytes of the first n runes.
func prefix(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
