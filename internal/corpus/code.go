package corpus

import (
	"strings"
)

// SplitCode is Split for program code: chunks begin where something at the first column follows a blank line, which is where declarations
// with their comments begin in nearly all languages. What is over the budget by itself is cut at blank lines, then between lines.
func SplitCode(text string, tokens int, counter *Counter) []Chunk {
	if tokens < 1 {
		panic("corpus: a budget of less than one token")
	}
	c := codeCutter{cutter{text: text, budget: tokens, counter: counter}}
	var atoms []span
	for _, s := range c.segments(span{0, len(text)}, true) {
		atoms = c.atoms(atoms, s)
	}
	var all []Chunk
	for i := 0; i < len(atoms); {
		whole := atoms[i]
		n := counter.Count(text[whole.start:whole.end])
		for i++; i < len(atoms); i++ {
			more := counter.Count(text[whole.start:atoms[i].end])
			if more > tokens {
				break
			}
			whole.end, n = atoms[i].end, more
		}
		all = append(all, Chunk{Text: text[whole.start:whole.end], Start: whole.start, End: whole.end, Tokens: n})
	}
	return all
}

// codeCutter cuts code.
type codeCutter struct{ cutter }

// atoms appends the parts of a declaration that are within the budget.
func (c *codeCutter) atoms(dst []span, s span) []span {
	if c.counter.Count(c.text[s.start:s.end]) <= c.budget {
		return append(dst, s)
	}
	parts := c.segments(s, false)
	if len(parts) == 1 {
		return c.cut(dst, s, atLine)
	}
	for _, p := range parts {
		if c.counter.Count(c.text[p.start:p.end]) <= c.budget {
			dst = append(dst, p)
		} else {
			dst = c.cut(dst, p, atLine)
		}
	}
	return dst
}

// segments parts a span after blank lines: with top only where the line that follows begins at the first column with something that is
// no closing bracket. Each keeps the indentation of its first line.
func (c *codeCutter) segments(s span, top bool) []span {
	var out []span
	from, end := -1, s.start // of the segment at hand; end is after its last line that isn't blank
	blank := true
	for at := s.start; at < s.end; {
		next := s.end
		if i := strings.IndexByte(c.text[at:s.end], '\n'); i >= 0 {
			next = at + i + 1
		}
		line := strings.TrimRight(c.text[at:next], " \t\r\n")
		if line == "" {
			blank = true
			at = next
			continue
		}
		begins := blank && (!top || !strings.ContainsAny(line[:1], " \t})]"))
		if from >= 0 && begins {
			out = append(out, span{from, end})
			from = -1
		}
		if from < 0 {
			from = at
		}
		end, blank, at = at+len(line), false, next
	}
	if from >= 0 {
		out = append(out, span{from, end})
	}
	return out
}
