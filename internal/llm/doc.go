// Package llm is where aerie meets models: it summarizes and embeds, through any OpenAI-compatible endpoint or with two
// providers that are built in and need no model.
//
// # Summaries
//
// [Chat] makes one call to an endpoint and returns what came back, with errors sorted by what the caller must do
// ([Error], [Kind]). [Patient] waits for the fleet's limits ([Limiter]) and the build's budget ([Budget]) before a call,
// settles both after it, and makes a call again that was throttled or failed in passing. [Checked] puts the answer
// through a chain of checks and asks again with more output tokens where the model spent them on reasoning. [Journaled]
// looks each call up before it is made and records it after the checks, so that no finished call is paid for twice and
// no refused answer is ever kept. [NewSummarizer] puts these together:
//
//	Journaled( Checked( Patient( Chat )))
//
// The outer two are mapreduce.Summarizers, the inner two are [Model]s, so each can be tested alone. [Extractive] is the
// built-in summarizer: it chooses sentences, and writes none. [NewDry] makes one that says what a build would cost.
//
// What an error means for a task is for the worker to decide: stop the build (Auth, Quota, ErrBudget), give the task back without
// counting the attempt (Throttled, Unreachable), try it again later (Transient), or bury it (the others).
//
// # Answers
//
// [Streamer] is the chat model for people who wait: what it says can be read while it is written. Package answer
// makes answers with citations of it, and checks them with [Examine].
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
