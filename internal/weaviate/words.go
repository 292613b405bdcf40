package weaviate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
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

// spell writes the signs in words by letters that have no case and stand in no text but of Khoisan languages, so that the server's
// tokenizations take such a word for one: "c++" must not be found as "c".
var spell = strings.NewReplacer("+", "ǂ", "#", "ǁ", ".", "ǀ", "_", "ǃ", "&", "ʘ")

// missedWords returns the words of a node's text and context that the server's own tokenization of the text doesn't find, as the
// property words holds them. Words that both find are left out, since they would count twice.
func missedWords(n *tree.Node) string {
	found := map[string]bool{}
	for _, word := range serverWords(n.Text) {
		found[word] = true
	}
	return strings.Join(slices.DeleteFunc(indexedWords(n), func(word string) bool { return found[word] }), " ")
}

// indexedWords returns all words that a node is found by.
func indexedWords(n *tree.Node) []string {
	return strings.Fields(spell.Replace(word.Indexed(n.Context, n.Text)))
}

// queryWords returns the distinct words of a query, in order.
func queryWords(text string) []string {
	var words []string
	for _, word := range strings.Fields(spell.Replace(word.Segment(text, true))) {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// torn reports whether the server's tokenization tears one of these words apart, as it does at the vowel signs of Hindi:
// it then finds texts that hold parts of it alone.
func torn(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	})
}

// holdsAny reports whether a node holds one of the words.
func holdsAny(n *tree.Node, words []string) bool {
	return slices.ContainsFunc(indexedWords(n), func(word string) bool { return slices.Contains(words, word) })
}

// currentWords returns the collection once the property words of all its nodes holds what missedWords says now. A collection that
// another version of the rules has filled is gone through: nodes that say something else are changed, then it is marked. What
// breaks off is begun again by the next keyword search.
func (s *Store) currentWords(ctx context.Context, corpus string, c *collection) (*collection, error) {
	if c.has(propWords) && c.has(propWordsMark) {
		return c, nil
	}
	c, err := s.refresh(ctx, corpus) // another process may have added them
	if err != nil || c == nil || c.has(propWordsMark) {
		return c, err
	}
	if c, err = s.ensureOnDemand(ctx, corpus, c, propWords); err != nil {
		return nil, err
	}
	var ids []tree.ID
	var texts []string
	flush := func() error {
		err := s.patch(ctx, c, ids, func(i int) map[string]any { return map[string]any{propWords: texts[i]} })
		ids, texts = ids[:0], texts[:0]
		return err
	}
	all := store.AnyLevel()
	err = s.scan(ctx, c, &all, store.Fields{Text: true}, func(n *tree.Node) error {
		missed := missedWords(n)
		if missed == "" && word.IsASCII(n.Text) && word.IsASCII(n.Context) {
			return nil // it was right under every rule
		}
		if ids, texts = append(ids, n.ID), append(texts, missed); len(ids) < maxBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, fmt.Errorf("make the words of %s again: %w", c.name, err)
	}
	return s.ensureOnDemand(ctx, corpus, c, propWordsMark)
}
