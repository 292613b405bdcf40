package evaluate

import (
	"github.com/aerie-rag/aerie/internal/word"
)

// functionWords are the English words that carry no content. Words of other languages all count as content, for
// every arm alike.
var functionWords = wordSet(`
a an the and or but nor so yet if then else than though although because while as until unless since whether
of at by for with about against between among into onto through during before after above below to from up down in
out on off over under within without upon toward towards across per via
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves one ones
this that these those here there where when why how what which who whom whose
all any both each few more most other another some such no not none only own same too very just also even ever
never again further once still already
am is are was were be been being have has had having do does did doing done can could will would shall should may
might must ought
isn't aren't wasn't weren't don't doesn't didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't
it's i'm you're we're they're that's there's what's let's`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	word.Each(text, func(w string) { set[w] = true })
	return set
}

// contentWords returns the distinct terms of a text in order, without function words and those of the others.
func contentWords(text string, less ...string) []string {
	seen := map[string]bool{}
	for _, t := range less {
		word.Each(t, func(term string) { seen[term] = true })
	}
	var words []string
	word.Each(text, func(term string) {
		if !functionWords[term] && !seen[term] {
			seen[term] = true
			words = append(words, term)
		}
	})
	return words
}

// share returns what share of words a set holds; words isn't empty.
func share(words []string, held map[string]bool) float64 {
	n := 0
	for _, w := range words {
		if held[w] {
			n++
		}
	}
	return float64(n) / float64(len(words))
}
