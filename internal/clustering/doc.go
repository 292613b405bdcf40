// Package clustering decides which nodes of a level are summarized together: it groups a level's vectors into clusters of
// related rows under a hard cap on their tokens. It is pure: no I/O, no clock but for the timings of stages, and the same
// input gives the same bits on any number of cores and with any instruction set.
//
// # How a level is clustered
//
//   - check: every row must be finite and not all zero. Rows with equal vectors become one atom, which moves as a whole and
//     counts with its number of rows. Where no clustering can shrink the level (a token cap that leaves hardly any two
//     rows together), the run ends here.
//   - global stage: nearest neighbors under cosine distance (package knn), a fuzzy graph, principal components as a start
//     and a layout in a few dimensions (package umap), and on the layout a Gaussian mixture (package gmm). Up to 2,000
//     rows BIC chooses the number of components; beyond, BIC never stops falling, and a fan-out of up to 64 is used.
//   - local stage: the same inside each component, with the number of components by BIC. What is still over the cap is
//     split again; what no model splits is cut in order. The work is a list, not a recursion, and its depth is bounded.
//   - shape: so far each atom is in one cluster, the best. Now single rows join their nearest cluster, clusters are merged
//     where there are too many and split where there are too few. Merging looks for the most similar center with room.
//   - soft places: a row also joins the components whose posterior is over the threshold, strongest first, as long as the
//     cluster stays under the cap and such places cost no more than a tenth of the level's tokens.
//
// Taking the partition first and the further places last is what makes the rules hold for every input: conservation, the
// cap and the shrink rule are properties of the partition, and a further place is only ever added where it breaks none.
//
// # Modes
//
// Raptor is the above. Reference follows the RAPTOR paper's code (Sarthi et al., 2024): ⌊√(n-1)⌋ neighbors in the global
// and ten in the local stage, and the number of components by BIC over 1 to 49 in both; caps and shrinking as in Raptor,
// but single rows stay by themselves. Flat has one stage with at least n/t components for a target size t. KMeans is
// k-means on the vectors themselves (package sphere), with n/t clusters.
//
// Raptor's covariances are full, with a floor of 1e-5 of the layout's variance; that gives clusters of six to nine rows of
// real text, as the reference does.
//
// # Few rows
//
// Up to 11 rows are clustered as they are, by k-means with the number of clusters that has the best silhouette. A level
// has at least two clusters or none; with the shrink rule that means three rows make two clusters and two make none.
// Rows that share nothing with any other, such as bags of words without a common word, have no place in a layout: they go
// to the most similar component, and when most rows are such the vectors themselves are clustered.
//
// # Why the result doesn't depend on the machine
//
// Random numbers are functions of the seed, the stage and an index (package random). Loops are parallel over what they
// write, and sums are made in a fixed order. Assembly and Go compute the same bits by definition (package kernel).
// Neighbors and all sorting have a total order. The order of columns of the vectors does change last bits, and with them
// possibly clusters; vectors of one embedder have a fixed order.
package clustering
