package mapreduce

// Estimate returns what [Summarize] would do with children of so many tokens each: how many calls, the tokens that go
// in, and the most that come out. It agrees with Summarize when each child fits into the window and the model's
// tokenizer keeps to the margin. Children without tokens are passed over.
func Estimate(tokens []int, cfg Config) (calls, inputTokens, outputTokens int) {
	r, prompt := cfg.room(), cfg.promptTokens()
	var parts []int
	for _, t := range tokens {
		parts = appendPieces(parts, t, r.text-separatorTokens)
	}
	if len(parts) == 0 {
		return 0, 0, 0
	}
	for first := true; first || len(parts) > 1; first = false {
		batches := Pack(parts, r.text)
		var next []int
		for _, b := range batches {
			size := r.part + separatorTokens
			if passes(len(batches), b, parts[b.From], r) {
				next = append(next, max(size, parts[b.From]))
				continue
			}
			calls++
			inputTokens += prompt
			for _, p := range parts[b.From:b.To] {
				inputTokens += p - separatorTokens + 1
			}
			outputTokens += cfg.MaxOutputTokens
			next = append(next, size)
		}
		if len(next) >= len(parts) && !first {
			break
		}
		parts = next
	}
	return calls, inputTokens, outputTokens
}

// appendPieces appends the sizes of the pieces that a child of t tokens is cut into: all but the last nearly full.
func appendPieces(parts []int, t, budget int) []int {
	if t > budget {
		n := (t + budget - 1) / budget
		for i := range n {
			parts = append(parts, t*(i+1)/n-t*i/n+separatorTokens)
		}
		return parts
	}
	if t > 0 {
		parts = append(parts, t+separatorTokens)
	}
	return parts
}
