// Package mapreduce makes one text of many, within the token window of a model.
//
// The texts, in order, are cut into batches that fit into one call each ([Pack]); each batch is summarized (map), and
// the answers are packed and summarized again in the same way (reduce) until one text is left. What fits into one
// call is one call.
//
// # Two measures
//
// Token counts come from aerie's own tokenizer, and the model has another. So two measures are kept apart:
//
//   - Packing uses the counter's tokens with [Config.Margin] on top. Answers that are still to be made are given the
//     size they may have, MaxOutputTokens, so the number of calls follows from the children's token counts alone.
//   - Before a call, [Guess] looks at the text as the least favorable tokenizer would. A batch that could overflow the
//     window by that measure (tables, long runs of punctuation, a script that the model spells out byte by byte) is
//     halved. The same happens when the endpoint itself says that a request was too long. These are the cases in which
//     [Summarize] makes more calls than the packing needs.
//
// Room is also kept for a second try with twice the output tokens, which package llm makes when a model spends its
// output on reasoning; only where the window is too small for that does the reserve shrink, down to the output itself.
//
// # Termination
//
// Each round must leave fewer parts or fewer tokens than the one before; otherwise Summarize fails. A window has room
// for two answers at least ([Config.Validate]), so a well-behaved model always gets there, in O(n) calls.
//
// The package does no I/O of its own.
package mapreduce
