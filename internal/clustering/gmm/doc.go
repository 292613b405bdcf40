// Package gmm fits Gaussian mixtures with full or diagonal covariances by expectation-maximization, in float64.
//
// The log-density of a Gaussian is linear in the products of two coordinates, the coordinates and 1: with φ(x) those
// (66 of them in ten dimensions), the log-densities of a block of rows are φ(X)·W for a matrix W with a column for each
// component, and the sums that the next step needs are Rᵀφ(X) for the responsibilities R. So both halves of a step are
// products of matrices. φ is made tile by tile and never stored for all rows.
//
// Rows are summed in fixed blocks and the blocks' sums are added as a tree over the block's index, never by worker.
// A row's responsibilities beyond its eight largest are dropped from those sums; they hold about a millionth.
package gmm
