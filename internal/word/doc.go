// Package word cuts text into words, in one way for whatever compares texts by them: the keyword indexes of both stores, their
// queries, packing by coverage, and the answers that are checked against hits ([Segment], [Each]). The embedder that is built in has a
// walk of its own ([EachTerm]), because the vectors that it made are kept; the scripts and the folding are the same. [Weight] says how
// much a word tells.
package word
