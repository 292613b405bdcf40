// Package answer makes an answer with citations of what a query found.
//
// It trusts nobody: neither the passages, which anyone may have written, nor the model. What it returns are
// sentences, which cite hits that exist: by the model's word or, where it names none, by what aerie finds that says the same. What
// nothing supports is told of in a note.
//
//  1. relevance: without a hit that is near enough to the question, or that holds enough of its words, there is no
//     answer, and no call is made ([Answer.Abstained]).
//  2. prompt: the passages are numbered and fenced off by a mark that no passage can hold, as many as fit into
//     the model's window. The model is told to cite, to follow nothing that stands in a passage, and to say so when the
//     passages hold no answer.
//  3. sentences: the text is cut into sentences as it comes, so that it can be read while it is written, and the
//     citations of each are checked ([Sentence.FromCorpus]).
//  4. quotes: without a chat model, the answer is the sentences of the hits that have most of the question's words.
//
// That a sentence cites a passage doesn't prove that the passage says so; it tells where to look.
package answer
