// Package retrieve answers queries from the tree of a corpus: it finds nodes and packs the best of them into a
// budget of tokens.
//
// A query runs in four steps, each a file of its own:
//
//  1. reader: the corpus's record says at which generation to read, what may be read, and which embedder's
//     vectors the query must be compared with.
//  2. pool: a [Mode] decides which nodes are candidates, and how they score.
//  3. pack: a [Pack] chooses among the candidates until the budget of tokens or the number of hits is used up.
//  4. provenance: each hit gets its text, its documents and its source leaves.
//
// Everything in between two runs is the same for the same question: ties are broken by id.
//
// # What is never returned
//
// A reader at a generation sees the nodes of that generation alone, so a build that is running shows nothing and
// half a tree is never read. If a generation is published while a query runs, the query is run again, since the
// nodes that it found may be gone. With keep_leaves false, leaves are the ground of provenance but no hits.
package retrieve
