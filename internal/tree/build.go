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

	// What was odd about the calls.
	Refused       int `json:"refused,omitempty"`        // answers that a check refused, which were paid for all the same
	Trimmed       int `json:"trimmed,omitempty"`        // summaries that were cut off and are kept up to the end of a sentence
	CutPrompts    int `json:"cut_prompts,omitempty"`    // prompts of which the endpoint seems to have read only a part
	OtherLanguage int `json:"other_language,omitempty"` // summaries that are in another script than what they summarize
}

// Add returns the sum of two counts.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Calls: u.Calls + v.Calls, Reused: u.Reused + v.Reused,
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		Refused: u.Refused + v.Refused, Trimmed: u.Trimmed + v.Trimmed, CutPrompts: u.CutPrompts + v.CutPrompts, OtherLanguage: u.OtherLanguage + v.OtherLanguage,
	}
}
