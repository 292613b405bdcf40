package kernel

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLayoutLoopsOfAllSetsAgree(t *testing.T) {
	c := NewCurve(1.5769434602697652, 0.8950608778515733)
	for _, s := range All() {
		for _, stride := range []int{16, 32} {
			const points, n = 50, 40
			x, y := fill(points*stride, 1), fill(stride, 2)
			copy(x[7*stride:8*stride], y) // a target at distance 0
			targets := make([]int32, n)
			for i := range targets {
				targets[i] = int32(i * 31 % points)
			}
			targets[3] = 7
			run := func(s *Set) (out []float32) {
				d := make([]float32, n)
				s.Distances(d, y, x, targets)
				out = append(out, d...)
				for i := range d {
					d[i] *= float32(math.Exp2(float64(i) - 20))
				}
				far := append([]float32(nil), d...)
				s.Attract(d, &c)
				s.Repel(far, &c)
				out = append(append(out, d...), far...)
				g := fill(stride, 3)
				s.Pull(g, y, x, targets[:n-3], d)
				s.Pull(g, y, x, targets[:1], far)
				out = append(out, g...)
				m, v, next := fill(stride, 4), make([]float32, stride), make([]float32, stride)
				v[1] = 3
				s.Step(next, y, m, v, g, 0.7)
				return append(append(append(out, m...), v...), next...)
			}
			if diff := cmp.Diff(run(Portable()), run(s)); diff != "" {
				t.Errorf("%s, width %d: %s", s.Name, stride, diff)
			}
		}
	}
}

func TestPowersAreCloseToTheirDefinition(t *testing.T) {
	for e := -30.0; e < 40; e += 0.013 {
		x := math.Exp2(e)
		if got := float64(log2(float32(x))); math.Abs(got-e) > 2e-5+1e-6*math.Abs(e) {
			t.Fatalf("log2(%g) = %g, want %g", x, got, e)
		}
		if got := float64(exp2(float32(e))); math.Abs(got/x-1) > 4e-6 {
			t.Fatalf("exp2(%g) = %g, want %g", e, got, x)
		}
	}
	if got := exp2(-1000); !(got > 0 && got < 1e-37) {
		t.Errorf("exp2(-1000) = %g, want about 2^-126", got)
	}
}

// The gradient's factors by their formulas, in float64.
func TestForcesFollowTheCurve(t *testing.T) {
	a, b := 1.5769434602697652, 0.8950608778515733
	c := NewCurve(a, b)
	for _, x := range []float64{1e-6, 0.01, 0.5, 1, 3, 100, 1e4} {
		pull, push := make([]float32, Group), make([]float32, Group)
		pull[0], push[0] = float32(x), float32(x)
		Best().Attract(pull, &c)
		Best().Repel(push, &c)
		p := math.Pow(x, b)
		if want := -2 * a * b * p / x / (1 + a*p); math.Abs(float64(pull[0])/want-1) > 1e-4 {
			t.Errorf("attraction at %g: %g, want %g", x, pull[0], want)
		}
		if want := 2 * b / ((0.001 + x) * (1 + a*p)); math.Abs(float64(push[0])/want-1) > 1e-4 {
			t.Errorf("repulsion at %g: %g, want %g", x, push[0], want)
		}
	}
}

func TestExpIsWithinOneUnit(t *testing.T) {
	for x := -745.0; x < 709; x += 0.0371 {
		got, want := Exp(x), math.Exp(x)
		// Either is within one unit (at most 2.3e-16) of the truth.
		if want > 1e-300 && math.Abs(got-want) > 4.6e-16*want {
			t.Fatalf("Exp(%g) = %g, want %g", x, got, want)
		}
	}
	for _, x := range []float64{0, math.Inf(-1), math.Inf(1), -746, 1e-300} {
		if got, want := Exp(x), math.Exp(x); got != want {
			t.Errorf("Exp(%g) = %g, want %g", x, got, want)
		}
	}
	if !math.IsNaN(Exp(math.NaN())) {
		t.Error("Exp(NaN) is a number")
	}
}
