package mapreduce

import (
	"context"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Summarizer makes one text from several, in one call to a model. Package llm implements it.
type Summarizer interface {
	// Summarize returns an answer that has passed every check of package llm: never empty, cut off, a refusal
	// or reasoning. Errors are those of package llm.
	Summarize(ctx context.Context, call Call) (Answer, error)
}

// Call is one request to a Summarizer.
type Call struct {
	// Prompt is the template; its one {chunks} stands for Texts.
	Prompt string
	// Texts are the passages, in order.
	Texts []string
	// MaxOutputTokens bounds the answer.
	MaxOutputTokens int
	// InputTokens are those of the filled prompt by aerie's tokenizer; 0 means that they were not counted. It has no
	// part in the journal's key.
	InputTokens int
	// Build names the build that pays, for the journal's books. It has no part in the journal's key.
	Build string
	// Corpus is that of the build, for those who must find its answers again. It has no part in the journal's key.
	Corpus string
}

// Answer is what a Summarizer returns.
type Answer struct {
	Text  string
	Usage tree.Usage
}
