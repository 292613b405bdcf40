// Package tree holds the nouns that every part of aerie shares: nodes, levels, scopes and ids.
//
// A corpus is a set of documents. A document is cut into leaves, the nodes of level 0. Each cluster of the
// nodes of level L-1 becomes one summary, a node of level L. With soft clustering a node can have several
// parents, so the "tree" of the literature is in truth a layered acyclic graph.
//
// Ids are pure functions of what a node stands for, never of when, where or by whom it was made: see [LeafID]
// and [SummaryID]. That is what makes every write of a build repeatable.
package tree
