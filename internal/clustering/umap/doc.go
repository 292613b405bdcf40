// Package umap lays rows out in a few dimensions so that neighbors stay neighbors (McInnes, Healy and Melville, "UMAP:
// Uniform Manifold Approximation and Projection for Dimension Reduction", 2018): a fuzzy graph over nearest neighbors
// ([Fuzzy]), principal components to start from ([Principal]), and a layout by stochastic gradients ([Layout]).
//
// umap-learn updates points in place, one edge after the other, so its result depends on the order of the edges and,
// in parallel, on luck. Here each epoch reads the coordinates of the epoch before and each vertex sums the gradients of
// its own edges in their order; then one step of Adam. Nothing is shared but what is only read, so any number of
// goroutines gives the same bits. Adam is what makes such batches as good as single updates (uwot's batch mode).
package umap
