package answer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/printable"
)

// Sentence is one sentence of an answer.
type Sentence struct {
	// Text is the sentence with its citations. It holds nothing that steers a terminal.
	Text string `json:"text"`
	// Citations are the numbers of hits that it cites, from 1, ascending. Never nil.
	Citations []int `json:"citations"`
	// FromCorpus says that it cites, and only what exists.
	FromCorpus bool `json:"from_corpus"`
	// By says who found its citations, ByModel or ByAerie; "" if it has none.
	By string `json:"by,omitempty"`
	// Doubtful are those of its citations whose hits hold next to none of its words.
	Doubtful []int `json:"doubtful,omitempty"`
	// Gap is the white space between the sentence before and this one; "" for the first.
	Gap string `json:"-"`
}

// judge makes a sentence of what a model wrote about n hits.
func judge(raw string, n int) Sentence {
	text := strings.TrimSpace(printable.Text(raw))
	numbers, exist := cited(text, n)
	s := Sentence{Text: text, Citations: numbers, FromCorpus: exist && len(numbers) > 0}
	if s.FromCorpus {
		s.By = ByModel
	}
	return s
}

// splitter cuts a text into sentences while it comes. A sentence goes out once another has begun, so that a citation
// which follows its full stop is part of it.
type splitter struct {
	held string
}

// write adds to the text and returns the sentences that are complete. Joined, all sentences are the text.
func (s *splitter) write(text string) []string {
	s.held += text
	var out []string
	for {
		known := s.held
		if at := unclosed.FindStringIndex(known); at != nil {
			known = known[:at[0]]
		}
		end, ok := firstSentence(known)
		if !ok {
			return out
		}
		out = append(out, s.held[:end])
		s.held = s.held[end:]
	}
}

// rest returns what is held: the last sentence, which may be unfinished.
func (s *splitter) rest() string {
	rest := s.held
	s.held = ""
	return rest
}

// firstSentence returns where the first sentence ends, and whether another has begun: one with a letter in it. A run without
// any, such as the number of a list's item, belongs to what follows.
func firstSentence(text string) (end int, ok bool) {
	plain := newPlain(text)
	letters := false
	at, bound := 0, -1
	for _, part := range mapreduce.Sentences(plain.text) {
		if hasLetter(part) {
			if letters {
				return plain.cut(text, bound), true
			}
			letters = true
		}
		at += len(part)
		if letters && bound < 0 {
			bound = at
		}
	}
	return 0, false
}

func hasLetter(s string) bool { return strings.IndexFunc(s, unicode.IsLetter) >= 0 }

// plain is a text without its citations: how a text is cut into sentences must not depend on brackets around full
// stops. Of the white space around a citation, only that before it is kept.
type plain struct {
	text  string
	marks [][]int // where the citations stand in the raw text, with the blanks that went with them
	at    []int   // and where they would in the plain one
}

func newPlain(raw string) plain {
	p := plain{marks: citation.FindAllStringIndex(raw, -1)}
	var b strings.Builder
	from := 0
	for _, m := range p.marks {
		b.WriteString(raw[from:m[0]])
		p.at = append(p.at, b.Len())
		if last, _ := utf8.DecodeLastRuneInString(b.String()); b.Len() == 0 || unicode.IsSpace(last) {
			m[1] = len(raw) - len(strings.TrimLeft(raw[m[1]:], " \t"))
		}
		from = m[1]
	}
	b.WriteString(raw[from:])
	p.text = b.String()
	return p
}

// cut returns where the raw text is cut for a sentence that begins the plain text and ends at bound. Citations in the white
// space between it and the next sentence are its own if it has none else and they don't begin the line of the next, or
// if they stand on a line by themselves.
func (p plain) cut(raw string, bound int) int {
	body := len(strings.TrimRightFunc(p.text[:bound], unicode.IsSpace))
	first, last, inner := -1, -1, false
	for i, at := range p.at {
		switch {
		case at < body:
			inner = true
		case at <= bound:
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return p.raw(bound)
	}
	if p.at[first] == body { // the others follow the white space
		last = first
		for last+1 < len(p.at) && p.at[last+1] == body {
			last++
		}
		inner = false
	}
	begin, end := p.marks[first][0], p.marks[last][1]
	startsLine := strings.Contains(p.text[body:p.at[first]], "\n")
	after := strings.TrimLeft(raw[end:], " \t\r")
	if (inner || startsLine) && after != "" && after[0] != '\n' {
		return begin
	}
	rest := raw[end:]
	return end + len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
}

// raw returns the place in the raw text of one in the plain text, after the citations that stand there.
func (p plain) raw(at int) int {
	raw := at
	for i, m := range p.marks {
		if p.at[i] <= at {
			raw += m[1] - m[0]
		}
	}
	return raw
}
