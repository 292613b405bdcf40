// Package kernel holds the inner loops of the clustering: tile products in float32 and float64, the screen that
// throws away distances that can't matter, and exp and log that give the same bits everywhere.
//
// Each loop has a form in assembly and a twin in Go, and both give the same bits. That is possible because the order
// of every sum is part of the definition:
//
//   - A product c[i][j] is one chain of fused multiply-adds over the depth, c = fma(a[i][t], b[j][t], c) for t = 0, 1, …,
//     starting at 0. The chain doesn't depend on the tile's shape, so 6x16 AVX2 tiles, 12x32 AVX-512 tiles and the Go
//     loop agree, and so do a product computed in one piece and one that is continued.
//   - The products of many rows with one ([Set.Products]), which wait for memory and not for arithmetic, use no fused
//     operation, so that Go computes them as fast as it can: 32 lanes and a fixed final tree.
//   - The layout's sums ([Set.Distances], [Set.Pull]) use no fused operation, eight lanes, and a fixed final tree.
//
// Go may fuse x*y + z by itself on some targets; where that would change bits the product stands in an explicit
// conversion, float64(x*y) + z, which the language defines as a rounding.
package kernel
