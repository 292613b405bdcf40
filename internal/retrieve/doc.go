// Package retrieve answers queries from the tree of a corpus: it finds nodes and packs the best of them into a
// budget of tokens.
//
//	result, err := retriever.Retrieve(ctx, retrieve.Request{
//		Corpus: "default", Query: "who may prescribe it?", Options: retrieve.Options{Budget: new(500)},
//	})
//
// A query runs in four steps:
//
//  1. The corpus's record says at which generation to read, what may be read, and which embedder's vectors the
//     query must be compared with.
//  2. A [Mode] decides which nodes are candidates, and how they score.
//  3. A [Pack] chooses among the candidates until the budget of tokens or the number of hits is used up.
//  4. Each hit gets its documents and its source leaves.
//
// The same question to the same generation has the same answer: ties are broken by id, sums have a fixed order.
//
// # Packing by coverage
//
// How nodes are packed matters more than which mode finds them. The nearest nodes repeat one another, and a summary
// repeats its leaves, so taking the best scores first spends a budget on the same words again. [Coverage] instead
// takes the node that adds most per token, term by term: a term counts by its weight and by how much more relevant
// the node is than the chosen ones that hold the term already. Leaves are also lifted by relevant neighbors in their
// document. What did not help when it was measured: statistics of the whole corpus for term weights (those of the pool
// do), feedback from the best hits to the query's vector, and lifting leaves by their parent's score.
//
// # What is never returned
//
// A reader at a generation sees the nodes of that generation alone, so a build that is running shows nothing and
// half a tree is never read. If a generation is published while a query runs, the query is run again, since the
// nodes that it found may be gone. Summaries that rest on text which was deleted or replaced since the build are held back,
// since they may quote it. With keep_leaves false, leaves are the ground of provenance but no hits.
package retrieve
