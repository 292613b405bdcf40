package weaviate

import (
	"slices"
	"strings"
	"unicode"

	"github.com/aerie-rag/aerie/internal/word"
)

// serverWords returns the words that the server's tokenization "word" finds in a text.
func serverWords(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	for i := range words {
		words[i] = strings.ToLower(words[i])
	}
	return words
}

// missedWords returns the words of a text that the server's own tokenization doesn't find, as the property words holds
// them; empty for most text in English. Words that both find are left out, since they would count twice.
func missedWords(text string) string {
	if word.IsASCII(text) {
		return ""
	}
	found := map[string]bool{}
	for _, word := range serverWords(text) {
		found[word] = true
	}
	missed := slices.DeleteFunc(strings.Fields(word.Segment(text, false)), func(word string) bool { return found[word] })
	return strings.Join(missed, " ")
}

// torn reports whether the server's tokenization tears one of these words apart, as it does at the vowel signs of Hindi:
// it then finds texts that hold parts of it alone.
func torn(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	})
}

// holdsAny reports whether a text holds one of the words.
func holdsAny(text string, words []string) bool {
	return slices.ContainsFunc(strings.Fields(word.Segment(text, false)), func(word string) bool { return slices.Contains(words, word) })
}
