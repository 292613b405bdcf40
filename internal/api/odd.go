package api

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Odd says in sentences what a person should know of a build's calls.
func Odd(u tree.Usage) []string {
	var all []string
	add := func(n int, format string) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, n))
		}
	}
	add(u.CutPrompts, "%d prompts seem to have been read only in part: the endpoint's window is smaller than summaries.context_tokens")
	add(u.Refused, "%d answers were refused, and are paid for all the same")
	add(u.Trimmed, "%d summaries were cut off, and are kept up to the end of a sentence")
	add(u.OtherLanguage, "%d summaries are in another language than their passages, also when asked again")
	return all
}

// Odd says what was odd about the calls of a build.
func (b *BuildStatus) Odd() []string {
	return Odd(tree.Usage{CutPrompts: b.CutPrompts, Refused: b.Refused, Trimmed: b.Trimmed, OtherLanguage: b.OtherLanguage})
}
