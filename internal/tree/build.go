package tree

// Level names one level of one build.
type Level struct {
	Corpus string
	Build  string
	Level  int
}

// Usage counts what calls cost.
type Usage struct {
	Calls        int `json:"calls"`  // calls that were made and paid for by this build
	Reused       int `json:"reused"` // calls that the journal, or a node that exists, made unnecessary
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// Add returns the sum of two counts.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Calls: u.Calls + v.Calls, Reused: u.Reused + v.Reused,
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
	}
}
