package random

import (
	"math"
	"testing"
)

// The first numbers of SplitMix64 from the seed 1234567, from the reference code of Vigna (prng.di.unimi.it/splitmix64.c).
func TestAtIsSplitMix64(t *testing.T) {
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}
	for i, w := range want {
		if got := At(1234567, uint64(i)); got != w {
			t.Errorf("number %d is %d, want %d", i, got, w)
		}
	}
}

func TestBelowAndFloat64AreEven(t *testing.T) {
	const draws = 60_000
	var count [6]int
	var sum float64
	for i := range uint64(draws) {
		count[Below(At(Key(9, 4), i), 6)]++
		f := Float64(At(Key(9, 5), i))
		if f < 0 || f >= 1 {
			t.Fatalf("%g isn't in [0, 1)", f)
		}
		sum += f
	}
	for face, c := range count {
		// 10,000 expected, standard deviation 91.
		if math.Abs(float64(c)-draws/6) > 450 {
			t.Errorf("%d fell %d times of %d", face, c, draws)
		}
	}
	if mean := sum / draws; math.Abs(mean-0.5) > 0.006 {
		t.Errorf("mean %g", mean)
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for parent := range uint64(100) {
		for part := range uint64(100) {
			k := Key(Mix(parent), part)
			if seen[k] {
				t.Fatalf("key of %d, %d occurs twice", parent, part)
			}
			seen[k] = true
		}
	}
}
