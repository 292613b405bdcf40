package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bigFMA is a*b + c in exact arithmetic, rounded once.
func bigFMA(a, b, c float32) float32 {
	exact := func(x float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(x)) }
	p := new(big.Float).SetPrec(2000).Mul(exact(a), exact(b))
	f, _ := p.Add(p, exact(c)).Float32()
	return f
}

func TestFMA32RoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() float32 {
		return float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(60)-30)))
	}
	for range 200_000 {
		a, b := draw(), draw()
		c := draw()
		if rng.IntN(2) == 0 {
			// Near half an ulp of the sum, where double rounding goes wrong.
			c = a * b * float32(math.Exp2(float64(rng.IntN(50)-25)))
		}
		if got, want := fma32(a, b, c), bigFMA(a, b, c); got != want {
			t.Fatalf("fma32(%g, %g, %g) = %g, want %g", a, b, c, got, want)
		}
	}
	// A case where rounding twice is wrong: 1 + 2^-24 + a little is above the tie, the float64 sum is the tie itself.
	a, b := float32(1+math.Exp2(-23)), float32(math.Exp2(-24))
	c := float32(1)
	if got, want := fma32(a, b, c), float32(1+math.Exp2(-23)); got != want {
		t.Errorf("fma32 at the tie = %g, want %g", got, want)
	}
}

func fill(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func fill64(n int, seed uint64) []float64 {
	x := make([]float64, n)
	for i, v := range fill(n, seed) {
		x[i] = float64(v) * 1.000000123
	}
	return x
}

func TestTilesOfAllSetsAgree(t *testing.T) {
	for _, s := range All() {
		for _, k := range []int{1, 2, 3, 4, 5, 7, 8, 17, 384, 385} {
			x, y := fill(s.MR*k, 1), fill(s.NR*k, 2)
			a, b := make([]float32, len(x)), make([]float32, len(y))
			Rows{X: x, Dim: k}.Pack(a, 0, s.MR, s.MR)
			Rows{X: y, Dim: k}.Pack(b, 0, s.NR, s.NR)
			ldc := s.NR + 3
			got, want := make([]float32, s.MR*ldc), make([]float32, s.MR*ldc)
			s.Tile(k, a, b, got, ldc)
			for i := range s.MR {
				for j := range s.NR {
					var sum float32
					for d := range k {
						sum = fma32(x[i*k+d], y[j*k+d], sum)
					}
					want[i*ldc+j] = sum
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, depth %d: %s", s.Name, k, diff)
			}
			a64, b64 := fill64(MR64*k, 3), fill64(NR64*k, 4)
			got64, want64 := make([]float64, 8*12), make([]float64, 8*12)
			s.Tile64(k, a64, b64, got64, 12)
			Portable().Tile64(k, a64, b64, want64, 12)
			if diff := cmp.Diff(want64, got64); diff != "" {
				t.Fatalf("%s, float64, depth %d: %s", s.Name, k, diff)
			}
		}
	}
}

func TestScreensOfAllSetsAgree(t *testing.T) {
	for _, s := range All() {
		for rows := 1; rows < 40; rows++ {
			c := fill(rows*20+16, uint64(rows))
			ri, cj := fill(rows, 5), fill(16, 6)
			ri[0], cj[3] = float32(math.Inf(1)), 1-c[3]
			got, want := make([]uint64, rows), make([]uint64, rows)
			n := s.Screen(rows, c, 20, ri, cj, got)
			wantN := Portable().Screen(rows, c, 20, ri, cj, want)
			if diff := cmp.Diff(want[:wantN], got[:n]); diff != "" {
				t.Fatalf("%s, %d rows: %s", s.Name, rows, diff)
			}
			if got[0]&0xffff != 0xffff {
				t.Errorf("%s: an unlimited row must take every column, got %x", s.Name, got[0])
			}
			if got[0]>>16&8 == 0 {
				t.Errorf("%s: a distance equal to the limit must be within reach", s.Name)
			}
		}
	}
}

func TestAxpyOfAllSetsAgree(t *testing.T) {
	for _, s := range All() {
		for n := 0; n <= 68; n += 4 {
			x, got := fill64(n, 1), fill64(n, 2)
			want := append(make([]float64, 0, n), got...)
			s.Axpy(0.3, x, got)
			Portable().Axpy(0.3, x, want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %s", s.Name, diff)
			}
		}
	}
}
