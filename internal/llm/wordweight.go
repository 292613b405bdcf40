package llm

// WordWeight says how much a word tells of what a text is about: next to nothing for function words of the larger
// languages, at most about 1. Of several words it is that of the weightiest; of no word it is 0.
func WordWeight(word string) float64 {
	weight := 0.0
	eachTerm(fold(word), nil, func(t term) { weight = max(weight, wordWeight(t)) })
	return weight
}
