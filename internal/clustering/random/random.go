// Package random gives counter-based random numbers: each is a function of a key and a counter and of nothing else, so
// any goroutine can draw the numbers of any place in any order.
package random

import "math/bits"

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// Mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Key derives a key from a parent key and a part, such as a stage or an index.
func Key(parent, part uint64) uint64 { return Mix(parent + golden*(part+1)) }

// At returns the number at place i of a key's sequence.
func At(key, i uint64) uint64 { return Mix(key + golden*(i+1)) }

// Float64 turns a random word into a number in [0, 1).
func Float64(word uint64) float64 { return float64(word>>11) / (1 << 53) }

// Below turns a random word into an index in 0..n-1 (Lemire's multiplication; the bias is below n / 2^64).
func Below(word uint64, n int) int {
	hi, _ := bits.Mul64(word, uint64(n))
	return int(hi)
}
