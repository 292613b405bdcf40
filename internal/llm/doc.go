// Package llm is where aerie meets models: it summarizes and embeds, through any OpenAI-compatible endpoint or with two
// providers that are built in and need no model.
//
// # Summaries
//
// [Chat] makes one call to an endpoint and returns what came back, with errors sorted by what the caller must do
// ([Error], [Kind]). [Checked] puts the answer through a chain of checks and asks once more with more output tokens
// where the model spent them on reasoning. [Journaled] looks each call up before it is made and records it after the
// checks, so that no finished call is paid for twice and no refused answer is ever kept. [Limited] waits for the
// fleet's limits and the build's budget before a call, and settles both after it. [NewSummarizer] puts these together:
//
//	Journaled( Checked( Limited( Chat )))
//
// Each is a mapreduce.Summarizer or a [Model], so any of them can be tested alone or left out. [Extractive] is the
// built-in summarizer: it chooses sentences, and writes none.
//
// # Embeddings
//
// [Embeddings] asks an endpoint in batches, halves what is refused, and checks every vector. [Lexical] is the built-in
// embedder: hashed words and character n-grams. It knows words, not meanings.
//
// # Faults
//
// Package llmtest holds an endpoint that fails in every way listed there, for tests of this package and of whole
// builds.
package llm
