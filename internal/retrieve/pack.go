package retrieve

// packSimilarity takes the candidates of a sorted pool in order, passing over those that don't fit, until
// budget tokens or topK hits are reached; 0 is no bound for either. The order stays.
func packSimilarity(pool []*candidate, budget, topK int) []*candidate {
	var chosen []*candidate
	used := 0
	for _, c := range pool {
		switch {
		case topK > 0 && len(chosen) == topK:
			c.fate = TooMany
		case budget > 0 && used+c.node.Tokens > budget:
			c.fate = NoRoom
		default:
			c.fate = Chosen
			used += c.node.Tokens
			chosen = append(chosen, c)
		}
	}
	return chosen
}
