package evaluate

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// McNemar returns the two-sided p value of McNemar's exact test: under the null hypothesis, each of the wins and
// losses pairs in which two arms differ falls either way with probability 1/2. It is twice the smaller tail of the
// binomial distribution, at most 1.
func McNemar(wins, losses int) float64 {
	n, k := wins+losses, min(wins, losses)
	tail := 0.0
	for i := 0; i <= k; i++ {
		tail += math.Exp(logChoose(n, i) - float64(n)*math.Ln2)
	}
	return min(1, 2*tail)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// exactRanks is the largest number of differences for which Wilcoxon counts all assignments of signs.
const exactRanks = 60

// Wilcoxon returns the two-sided p value of the signed-rank test of paired differences. Zeros are dropped and ties
// share the mean of their ranks. Up to 60 differences the distribution is exact, ties included; above, it is the
// normal one with corrections for ties and continuity.
func Wilcoxon(differences []float64) float64 {
	d := nonzero(differences)
	if len(d) == 0 {
		return 1
	}
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	ranks := make([]int, len(d)) // doubled, so that a shared rank is whole
	ties := 0.0
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + j + 1 // 2 · mean of i+1 … j
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	positive, all := 0, 0
	for i, r := range ranks {
		all += r
		if d[i] > 0 {
			positive += r
		}
	}
	if len(d) <= exactRanks {
		return exactSignedRanks(ranks, min(positive, all-positive))
	}
	n := float64(len(d))
	mean := n * (n + 1) / 4
	deviation := math.Sqrt(n*(n+1)*(2*n+1)/24 - ties/48)
	z := (math.Abs(float64(positive)/2-mean) - 0.5) / deviation
	return min(1, math.Erfc(max(0, z)/math.Sqrt2))
}

// exactSignedRanks returns twice the probability that the sum of a random subset of ranks is at most w.
func exactSignedRanks(ranks []int, w int) float64 {
	ways := make([]float64, w+1) // probability of each sum up to w
	ways[0] = 1
	for _, r := range ranks {
		for sum := w; sum >= 0; sum-- {
			ways[sum] /= 2
			if sum >= r {
				ways[sum] += ways[sum-r] / 2
			}
		}
	}
	p := 0.0
	for _, x := range ways {
		p += x
	}
	return min(1, 2*p)
}

// exactFlips is the largest number of differences for which Permutation tries all assignments of signs, and
// enoughHits how many draws as large as what was observed settle the p value.
const (
	exactFlips = 16
	enoughHits = 400
)

// Permutation returns the two-sided p value of the paired permutation test of a mean difference (Fisher, "The
// Design of Experiments", 1935, section 21): how often a random choice of signs makes the sum at least as large in
// size as it is. Zeros change nothing and are dropped. Up to 16 differences all choices are counted. Above, choices
// are drawn, at most resamples of them, and no more once 400 were as large: then the p value is 400 by the number of
// draws, else (hits + 1)/(resamples + 1) (Besag and Clifford, "Sequential Monte Carlo p-values", 1991).
func Permutation(differences []float64, resamples int, random rand.Source) float64 {
	d := nonzero(differences)
	observed, size := 0.0, 0.0
	for _, x := range d {
		observed += x
		size += math.Abs(x)
	}
	// Sums that are equal but for rounding count as equal.
	bound := math.Abs(observed) - 1e-9*size
	hits := 0
	if len(d) <= exactFlips {
		for signs := range uint64(1) << len(d) {
			if math.Abs(flipped(d, signs)) >= bound {
				hits++
			}
		}
		return float64(hits) / float64(uint64(1)<<len(d))
	}
	sums := eights(d)
	for drawn := 1; drawn <= resamples; drawn++ {
		sum := 0.0
		for rest := sums; len(rest) > 0; {
			signs, n := random.Uint64(), min(8, len(rest))
			for i := range rest[:n] {
				sum += rest[i][byte(signs>>(8*i))]
			}
			rest = rest[n:]
		}
		if math.Abs(sum) >= bound {
			if hits++; hits == enoughHits {
				return float64(hits) / float64(drawn)
			}
		}
	}
	return float64(hits+1) / float64(resamples+1)
}

// eights returns for each eight values, the last filled up with zeros, their sums under all choices of signs, so that a draw
// adds up an eighth as many numbers.
func eights(values []float64) [][256]float64 {
	sums := make([][256]float64, (len(values)+7)/8)
	for g := range sums {
		for signs := range sums[g] {
			sums[g][signs] = flipped(values[8*g:min(8*g+8, len(values))], uint64(signs))
		}
	}
	return sums
}

// flipped adds up at most 64 values, those with a bit set in signs negated.
func flipped(values []float64, signs uint64) float64 {
	sum := 0.0
	for i, x := range values {
		// The bit becomes the sign: a branch on random bits would be mispredicted every other time.
		sum += math.Float64frombits(math.Float64bits(x) ^ (signs >> i << 63))
	}
	return sum
}

// Bootstrap returns the percentile interval of the mean of values at a confidence such as 0.95, from resamples draws
// with replacement (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13). values isn't empty.
func Bootstrap(values []float64, resamples int, confidence float64, random rand.Source) (low, high float64) {
	n := uint64(len(values))
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range values {
			// The high word of a product is uniform enough below n (Lemire): its bias is below n / 2^64.
			at, _ := bits.Mul64(random.Uint64(), n)
			sum += values[at]
		}
		means[i] = sum / float64(n)
	}
	slices.Sort(means)
	tail := (1 - confidence) / 2
	return quantile(means, tail), quantile(means, 1-tail)
}

// quantile interpolates between the sorted values, of which there is at least one (type 7 of Hyndman and Fan,
// "Sample Quantiles in Statistical Packages", 1996).
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Holm returns the p values corrected for their number by Holm's step-down method ("A Simple Sequentially Rejective
// Multiple Test Procedure", 1979), in the order given.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	corrected := make([]float64, len(p))
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, p[i]*float64(len(p)-rank)))
		corrected[i] = largest
	}
	return corrected
}

func nonzero(values []float64) []float64 {
	var out []float64
	for _, x := range values {
		if x != 0 {
			out = append(out, x)
		}
	}
	return out
}
