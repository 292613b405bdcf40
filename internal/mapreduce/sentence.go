package mapreduce

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// Sentences cuts a text into sentences by Unicode Standard Annex 29, which knows the full stops of all scripts, with
// three amendments: an abbreviation or an initial does not end a sentence, nor does a line break inside a paragraph,
// and a blank line always does. The parts, joined, are the text.
func Sentences(text string) []string {
	var out []string
	start, end := 0, 0
	seg := sentences.FromString(text)
	for seg.Next() {
		end += len(seg.Value())
		if goesOn(text[start:end], text[end:]) {
			continue
		}
		out = append(out, text[start:end])
		start = end
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// goesOn reports whether a sentence that was cut after head goes on in tail.
func goesOn(head, tail string) bool {
	if tail == "" {
		return false
	}
	if r, _ := utf8.DecodeRuneInString(tail); unicode.IsSpace(r) {
		return true // white space belongs to what it follows
	}
	body := strings.TrimRightFunc(head, unicode.IsSpace)
	if body == "" {
		return true // but at the very start
	}
	if strings.Count(head[len(body):], "\n") > 0 {
		return wraps(head[len(body):], body, tail)
	}
	if body[len(body)-1] != '.' {
		return false
	}
	word := body[strings.LastIndexFunc(body[:len(body)-1], unicode.IsSpace)+1 : len(body)-1]
	word = strings.TrimLeft(word, "([{\"'“‘«")
	return isAbbreviation(word)
}

// wraps reports whether a line break (gap) stands in the middle of a sentence: one line break, the line before doesn't
// end a sentence, and the next line doesn't begin a list item or a heading's rule.
func wraps(gap, body, tail string) bool {
	if strings.Count(gap, "\n") > 1 {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(body)
	if strings.ContainsRune(".!?:;。！？；：…।॥؟۔=-~", last) {
		return false
	}
	line := body[strings.LastIndexByte(body, '\n')+1:]
	if len(line) < 40 { // a short line is a heading, a list item or the end of a paragraph
		return false
	}
	next := strings.TrimLeft(tail, " \t")
	first, _ := utf8.DecodeRuneInString(next)
	return unicode.IsLetter(first) || unicode.IsDigit(first) || strings.ContainsRune("(\"'`“‘«", first)
}

func isAbbreviation(word string) bool {
	if word == "" {
		return false
	}
	if r, n := utf8.DecodeRuneInString(word); n == len(word) && unicode.IsUpper(r) {
		return true // an initial
	}
	switch strings.ToLower(word) {
	case "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "rev", "gen", "col", "lt", "vs", "cf", "e.g", "i.e", "eg", "ie",
		"fig", "figs", "eq", "eqs", "sec", "ch", "no", "nos", "vol", "pp", "p", "ed", "eds", "al", "approx", "ca", "dept", "inc", "ltd", "co", "corp",
		"jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "u.s", "u.k", "a.m", "p.m",
		"z.b", "bzw", "d.h", "usw", "nr", "str", "hr", "bd", "mme", "mlle", "av", "sra", "dra", "ud", "vgl":
		return true
	}
	return false
}
