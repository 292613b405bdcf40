package llm

import (
	"strings"
	"unicode"
)

const (
	// A run of words that repeats itself this often, and is this many words long in all, is a loop.
	loopTimes, loopWords = 4, 12
	// longestPeriod is the longest run of words that is looked for.
	longestPeriod = 48
	// loopSentences is how often a sentence of sentenceWords words or more may stand in an answer, less one.
	loopSentences, sentenceWords = 3, 5
	// Of an answer of manyWords words or more, this share of its runs of four words must be different ones.
	manyWords, differentRuns = 40, 0.5
)

// refuseLoops refuses an answer that says the same over and over. Where the passages do so too, alone or together, it is as it
// should be.
func refuseLoops(r *Reply, source []string) Reason {
	if !loops(r.Text) {
		return ""
	}
	if loops(strings.Join(source, "\n")) {
		return ""
	}
	return Loops
}

// loops measures a text by its repeated runs of words: one run after the other, a sentence again and again, or few
// different runs in all.
func loops(text string) bool {
	words := wordsOf(text)
	for period := 1; period <= min(longestPeriod, len(words)/loopTimes); period++ {
		run := 0
		for i := period; i < len(words); i++ {
			if words[i] != words[i-period] {
				run = 0
				continue
			}
			run++
			if run+period >= max(loopTimes*period, loopWords) {
				return true
			}
		}
	}
	if len(words) >= manyWords {
		runs := map[[4]string]bool{}
		for i := 4; i <= len(words); i++ {
			runs[[4]string(words[i-4:i])] = true
		}
		if float64(len(runs)) < differentRuns*float64(len(words)-3) {
			return true
		}
	}
	count := map[string]int{}
	for _, s := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(".!?。！？\n", c) }) {
		key := strings.Join(wordsOf(s), " ")
		if strings.Count(key, " ") >= sentenceWords-1 {
			if count[key]++; count[key] >= loopSentences {
				return true
			}
		}
	}
	return false
}

// wordsOf cuts a text into words in small letters. An ideograph is a word.
func wordsOf(text string) []string {
	var words []string
	start := -1
	text = strings.ToLower(text)
	for i, c := range text {
		wide := c >= 0x2e80 && unicode.IsLetter(c)
		inWord := !wide && (unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c))
		if start >= 0 && !inWord {
			words, start = append(words, text[start:i]), -1
		}
		switch {
		case wide:
			words = append(words, string(c))
		case inWord && start < 0:
			start = i
		}
	}
	if start >= 0 {
		words = append(words, text[start:])
	}
	return words
}

// shared returns the share of an answer's different words that its source has.
func shared(answer string, source []string) float64 {
	have := map[string]bool{}
	for _, s := range source {
		for _, w := range wordsOf(s) {
			have[w] = true
		}
	}
	seen := map[string]bool{}
	n := 0
	for _, w := range wordsOf(answer) {
		if !seen[w] {
			seen[w] = true
			if have[w] {
				n++
			}
		}
	}
	if len(seen) == 0 {
		return 0
	}
	return float64(n) / float64(len(seen))
}

// trimmed makes the best of an answer that ran into its bound: its sentences up to the last that has an end, each once,
// as many as fit into limit tokens. It may return "".
func trimmed(text string, sentences func(string) []string, count func(string) int, limit int) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, s := range sentences(text) {
		end := strings.TrimRightFunc(s, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("\"”’')]*_»」』", c) })
		if end == "" || !strings.ContainsRune(".!?…。！？।۔؟", lastRune(end)) {
			continue
		}
		key := strings.Join(wordsOf(s), " ")
		if seen[key] || loops(s) {
			continue
		}
		if b.Len() > 0 && count(b.String()+s) > limit {
			break
		}
		seen[key] = true
		b.WriteString(s)
	}
	return strings.TrimSpace(b.String())
}

func lastRune(s string) rune {
	var last rune
	for _, c := range s[max(0, len(s)-4):] {
		last = c
	}
	return last
}
