package evaluate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// By hand: 2·(C(22,0) + … + C(22,6)) / 2^22 = 2·110056 / 4194304, and so on.
func TestMcNemar(t *testing.T) {
	near(t, "6 against 16", McNemar(16, 6), 2*110056.0/4194304, 1e-12)
	near(t, "10 against 2", McNemar(10, 2), 2*79.0/4096, 1e-12)
	near(t, "5 against 0", McNemar(0, 5), 2.0/32, 1e-12)
	near(t, "equal", McNemar(4, 4), 1, 0)
	near(t, "nothing", McNemar(0, 0), 1, 0)
	if p := McNemar(3000, 100); !(p >= 0 && p < 1e-300) {
		t.Errorf("a hopeless case has p %v", p)
	}
}

// Depression scores before and after, Hollander and Wolfe, "Nonparametric Statistical Methods", 1973, p. 29: V = 40, one-sided
// p = 0.019531 = 10/512.
func TestWilcoxonTextbook(t *testing.T) {
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	after := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	var d []float64
	for i := range before {
		d = append(d, before[i]-after[i])
	}
	near(t, "p", Wilcoxon(d), 2*10.0/512, 1e-12)
}

// With ranks 1.5, 1.5, 3 and signs +, +, +: one of 8 assignments has a sum as small as 0.
func TestWilcoxonTiesAndZeros(t *testing.T) {
	near(t, "ties", Wilcoxon([]float64{2, 2, 0, 5, 0}), 2.0/8, 1e-12)
	// Signs -, +, +: the sum of negative ranks is 1.5; 3 of 8 subsets have at most that.
	near(t, "one negative", Wilcoxon([]float64{-2, 2, 5}), 2*3.0/8, 1e-12)
	near(t, "only zeros", Wilcoxon([]float64{0, 0}), 1, 0)
	near(t, "nothing", Wilcoxon(nil), 1, 0)
}

// The normal approximation takes over where the exact distribution ends, without a jump.
func TestWilcoxonApproximationJoins(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		d := make([]float64, exactRanks+1)
		for i := range d {
			d[i] = math.Round(random.NormFloat64()*5 + 1)
		}
		d = nonzero(d)
		if len(d) <= exactRanks {
			continue
		}
		exact := Wilcoxon(d[:exactRanks])
		near(t, "p with one more", Wilcoxon(d), exact, 0.03+0.3*exact)
	}
}

// Darwin's maize, cross-fertilized minus self-fertilized in eighths of an inch, and Fisher's count of it ("The Design of
// Experiments", section 21): of 32768 choices of signs 863 have a sum of 314 or more, so the two-sided p is 1726/32768.
func TestPermutationTextbook(t *testing.T) {
	maize := []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}
	want := 1726.0 / 32768
	near(t, "exact", Permutation(maize, 0, rand.NewPCG(1, 1)), want, 1e-12)
	// Two that cancel make it too long to count; p is 400 by the draws it takes, with a standard error of 0.0026.
	drawn := append(append([]float64{}, maize...), 0.001, -0.001)
	near(t, "drawn", Permutation(drawn, 100000, rand.NewPCG(1, 1)), want, 0.008)
	near(t, "nothing", Permutation(nil, 100, rand.NewPCG(1, 1)), 1, 0)
	near(t, "all zero", Permutation(make([]float64, 50), 100, rand.NewPCG(1, 1)), 1, 0)
}

func TestPermutationIgnoresRounding(t *testing.T) {
	// 0.1 + 0.2 - 0.3 isn't 0 in floating point; every choice of signs has a sum of at least 0.
	near(t, "p", Permutation([]float64{0.1, 0.2, -0.3}, 0, rand.NewPCG(1, 1)), 1, 0)
}

// Under the null hypothesis p values are uniform: about 5 % lie below 0.05.
// Draws that add up eights find what draws do that add up one value after the other.
func TestPermutationByEights(t *testing.T) {
	for _, n := range []int{17, 24, 63, 64, 65, 130} {
		random := rand.New(rand.NewPCG(uint64(n), 1))
		d := make([]float64, n)
		observed := 0.0
		for i := range d {
			d[i] = random.NormFloat64() + 0.2
			observed += d[i]
		}
		const resamples = 300 // too few for 400 hits
		hits, source := 0, rand.NewPCG(7, 7)
		for range resamples {
			sum, signs := 0.0, uint64(0)
			for i, x := range d {
				if i%64 == 0 {
					signs = source.Uint64()
				}
				if signs>>(i%64)&1 == 1 {
					x = -x
				}
				sum += x
			}
			if math.Abs(sum) >= math.Abs(observed) {
				hits++
			}
		}
		near(t, fmt.Sprint(n, " differences"), Permutation(d, resamples, rand.NewPCG(7, 7)), float64(hits+1)/(resamples+1), 1e-12)
	}
}

func TestPermutationHoldsItsLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	small := 0
	for range 400 {
		d := make([]float64, 40)
		for i := range d {
			d[i] = random.NormFloat64()
		}
		if Permutation(d, 500, rand.NewPCG(3, 4)) < 0.05 {
			small++
		}
	}
	if small < 8 || small > 34 { // 20 ± 3.2 standard deviations of 4.4
		t.Errorf("%d of 400 are below 0.05, want about 20", small)
	}
}

// The interval of a mean is close to the mean ± 1.96 standard errors for a large sample.
func TestBootstrap(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	values := make([]float64, 500)
	mean, square := 0.0, 0.0
	for i := range values {
		values[i] = random.NormFloat64()*2 + 10
		mean += values[i] / 500
	}
	for _, x := range values {
		square += (x - mean) * (x - mean) / 499
	}
	half := 1.96 * math.Sqrt(square/500)
	low, high := Bootstrap(values, 10000, 0.95, rand.NewPCG(1, 1))
	near(t, "low", low, mean-half, 0.02)
	near(t, "high", high, mean+half, 0.02)
	again, _ := Bootstrap(values, 10000, 0.95, rand.NewPCG(1, 1))
	near(t, "low, same seed", again, low, 0)
	low, high = Bootstrap([]float64{3}, 10, 0.9, rand.NewPCG(1, 1))
	near(t, "one value, low", low, 3, 0)
	near(t, "one value, high", high, 3, 0)
}

// The example of the method by hand: 4·0.005, 3·0.01, 2·0.03, and 0.04 raised to the one before.
func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.5, 0.9}, []float64{1, 1}},
		{[]float64{0.2}, []float64{0.2}},
		{nil, []float64{}},
	} {
		if diff := cmp.Diff(c.want, Holm(c.p), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.p, diff)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{1, 2, 3, 4}
	near(t, "median", quantile(values, 0.5), 2.5, 1e-12)
	near(t, "95 %", quantile(values, 0.95), 3.85, 1e-12)
	near(t, "all", quantile(values, 1), 4, 0)
}
