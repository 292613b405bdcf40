package gmm

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

func machine() kernel.Machine {
	return kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
}

func relative(got, want float64) float64 { return math.Abs(got-want) / math.Abs(want) }

// scikit-learn's values; see ../testdata/README.md for the tolerances.
func TestStepsAgreeWithScikitLearn(t *testing.T) {
	want := golden.Read(t).GMM
	y := golden.Load[float64](t, "gmm_y_600x10_f64.npy")
	resp := golden.Load[float64](t, "gmm_resp0_600x7_f64.npy")
	d := Data{X: y, N: 600, Dim: 10}
	label := make([]int32, d.N)
	for i := range label {
		for c := range 7 {
			if resp[i*7+c] == 1 {
				label[i] = int32(c)
			}
		}
	}
	for _, set := range kernel.All() {
		m := kernel.Machine{Set: set, Workers: 2}
		model := start(d, label, Reference(0))
		for i, v := range golden.Load[float64](t, "gmm_means1_7x10_f64.npy") {
			if math.Abs(model.Mean[i]-v) > 1e-10*(1+math.Abs(v)) {
				t.Fatalf("%s: mean %d of the start is %g, want %g", set.Name, i, model.Mean[i], v)
			}
		}
		for i, v := range golden.Load[float64](t, "gmm_cov1_7x10x10_f64.npy") {
			// Second moments of coordinates up to 10 leave 1e-14 of 100.
			if math.Abs(model.Cov[i]-v) > 1e-11 {
				t.Fatalf("%s: covariance %d of the start is %g, want %g", set.Name, i, model.Cov[i], v)
			}
		}
		shares := golden.Load[float64](t, "gmm_resp1_600x7_f64.npy")
		err := model.Members(context.Background(), m.One(), d, func(row int, members []Member) {
			got := make([]float64, 7)
			for _, s := range members {
				got[s.Component] = s.Posterior
			}
			for c, v := range got {
				if math.Abs(v-shares[row*7+c]) > 1e-6 {
					t.Errorf("%s: posterior of row %d in component %d is %g, want %g", set.Name, row, c, v, shares[row*7+c])
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for step, ll := range want.Steps {
			s, err := model.expect(context.Background(), m, d)
			if err != nil {
				t.Fatal(err)
			}
			model.LogLikelihood = s.logLikelihood / 600
			if e := relative(model.LogLikelihood, ll); e > 1e-8 {
				t.Errorf("%s: step %d: mean log-likelihood %.12f, want %.12f", set.Name, step, model.LogLikelihood, ll)
			}
			if step == len(want.Steps)-1 {
				if e := relative(model.BIC(600), want.BIC); e > 1e-6 {
					t.Errorf("%s: BIC %f, want %f", set.Name, model.BIC(600), want.BIC)
				}
			}
			model.maximize(s, 600, 1e-6)
		}
	}
}

// Two mixtures that start from different draws end in different optima, so scikit-learn's curve can only be met in kind:
// within 5 % of its range, and a minimum whose BIC is as good.
func TestBICCurveIsLikeScikitLearns(t *testing.T) {
	want := golden.Read(t).Curve
	d := Data{X: golden.Load[float64](t, "gmm_y_600x10_f64.npy"), N: 600, Dim: 10}
	span := want.Points[0].BIC - want.Points[want.Argmin-1].BIC
	best := math.Inf(1)
	for _, p := range want.Points {
		if p.K > 20 {
			break
		}
		m, err := Fit(context.Background(), machine(), d, p.K, Reference(224))
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, m.BIC(600))
		if math.Abs(m.BIC(600)-p.BIC) > 0.07*span {
			t.Errorf("BIC of %d components is %.0f, scikit-learn's %.0f", p.K, m.BIC(600), p.BIC)
		}
	}
	if lowest := want.Points[want.Argmin-1].BIC; best > lowest+0.05*span {
		t.Errorf("least BIC %.0f, scikit-learn's %.0f", best, lowest)
	}
}

func normal(seed uint64, n, dim int, at func(i, j int) (mean, sd float64)) Data {
	rng := rand.New(rand.NewPCG(seed, 9))
	d := Data{X: make([]float64, n*dim), N: n, Dim: dim}
	for i := range d.X {
		mean, sd := at(i/dim, i%dim)
		d.X[i] = mean + sd*rng.NormFloat64()
	}
	return d
}

func TestFitFindsTheMixture(t *testing.T) {
	d := normal(1, 3000, 2, func(i, j int) (float64, float64) { return float64(i % 3 * 10), 1 + float64(j) })
	m, err := Fit(context.Background(), machine(), d, 3, Reference(1))
	if err != nil {
		t.Fatal(err)
	}
	if !m.Converged || m.K != 3 {
		t.Fatalf("converged %v with %d components", m.Converged, m.K)
	}
	for c := range 3 {
		mean := m.Mean[c*2]
		if near := math.Round(mean/10) * 10; math.Abs(mean-near) > 0.2 || math.Abs(m.Weight[c]-1./3) > 0.01 {
			t.Errorf("component %d: mean %g, weight %g", c, mean, m.Weight[c])
		}
		// sd 0.06 of the variance of 1000 points of variance 4 is 0.18.
		if v := m.Cov[c*4+3]; math.Abs(v-4) > 0.8 {
			t.Errorf("component %d: variance of the second coordinate %g, want 4", c, v)
		}
	}
}

func TestWeightsCountLikeCopies(t *testing.T) {
	d := normal(2, 200, 3, func(i, _ int) (float64, float64) { return float64(i % 2 * 6), 1 })
	weighted, copied := d, Data{Dim: 3}
	weighted.Weight = make([]float64, d.N)
	label := make([]int32, d.N)
	var copiedLabel []int32
	for i := range d.N {
		label[i] = int32(i % 2)
		weighted.Weight[i] = float64(1 + i%3)
		for range 1 + i%3 {
			copied.X = append(copied.X, d.row(i)...)
			copiedLabel = append(copiedLabel, label[i])
		}
	}
	copied.N = len(copiedLabel)
	a, err := FitFrom(context.Background(), machine(), weighted, label, Reference(0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := FitFrom(context.Background(), machine(), copied, copiedLabel, Reference(0))
	if err != nil {
		t.Fatal(err)
	}
	if e := relative(a.LogLikelihood, b.LogLikelihood); e > 1e-12 {
		t.Errorf("log-likelihood %g by weight, %g by copies", a.LogLikelihood, b.LogLikelihood)
	}
	for i := range a.Mean {
		if math.Abs(a.Mean[i]-b.Mean[i]) > 1e-9 {
			t.Errorf("mean %d: %g by weight, %g by copies", i, a.Mean[i], b.Mean[i])
		}
	}
}

// More rows than one block, more components than [Top].
func TestFitIsTheSameForAnyWorkersAndSet(t *testing.T) {
	d := normal(3, 3*blockRows+17, 10, func(i, j int) (float64, float64) { return float64(i % 12 * (j % 4)), 1 })
	var want *Model
	for _, set := range kernel.All() {
		for _, workers := range []int{1, 2, 3, 7} {
			o := Reference(5)
			o.Steps, o.Lloyd = 4, 3
			got, err := Fit(context.Background(), kernel.Machine{Set: set, Workers: workers}, d, 12, o)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Model{})); diff != "" {
				t.Fatalf("%s, %d workers: %s", set.Name, workers, diff)
			}
		}
	}
}

func finite(t *testing.T, m *Model) {
	t.Helper()
	for _, list := range [][]float64{m.Weight, m.Mean, m.Cov, {m.LogLikelihood}} {
		for _, v := range list {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("model isn't finite: %+v", m)
			}
		}
	}
}

func TestFault14IllDefinedCovariance(t *testing.T) {
	// 96 components for 100 points, most of them singletons, and all points on a line.
	d := normal(4, 100, 10, func(i, j int) (float64, float64) { return float64(i), 0 })
	for _, k := range []int{1, 5, 96, 100, 200} {
		m, err := Fit(context.Background(), machine(), d, k, Reference(3))
		if err != nil {
			t.Fatal(err)
		}
		finite(t, m)
		if m.K < 1 || m.K > min(k, 100) {
			t.Errorf("%d components asked, %d fitted", k, m.K)
		}
	}
}

func TestFault15NegativeVariance(t *testing.T) {
	d := Data{X: []float64{9999, 0}, N: 2, Dim: 1}
	m, err := Fit(context.Background(), machine(), d, 2, Reference(1))
	if err != nil {
		t.Fatal(err)
	}
	finite(t, m)
	for c := range m.K {
		if v := m.Cov[c]; v < 0.99e-6 || v > 1e-5 {
			t.Errorf("variance of a component of one point is %g, want the floor of 1e-6", v)
		}
	}
}

// The covariance of https://github.com/scikit-learn/scikit-learn/issues/29989's kind: condition 1e9. The log-density of a
// point is compared with the closed form of a diagonal covariance turned by a rotation that float64 holds exactly.
func TestFault16LogDensityOfBadCondition(t *testing.T) {
	const small = 1e-9
	m := &Model{K: 1, Dim: 2, Weight: []float64{1}, Mean: []float64{3, 4}, shift: []float64{3, 4},
		Cov: []float64{(1 + small) / 2, (1 - small) / 2, (1 - small) / 2, (1 + small) / 2}}
	m.prepare()
	d := Data{X: []float64{4, 5}, N: 1, Dim: 2} // along the wide axis, √2 away: (x-μ)ᵀP(x-μ) = 2
	var got float64
	m.each(kernel.Best(), newTile(1, 2), d, 0, 1, func(_ int, logs []float64) { got = logs[0] })
	want := -math.Log(2*math.Pi) - math.Log(small)/2 - 1
	if math.Abs(got-want) > 1e-5 {
		t.Errorf("log-density %g, want %g", got, want)
	}
}

func TestFault17MoreComponentsThanPoints(t *testing.T) {
	d := normal(5, 4, 2, func(i, j int) (float64, float64) { return float64(10 * i), 1 })
	m, err := Fit(context.Background(), machine(), d, 5, Reference(1))
	if err != nil {
		t.Fatal(err)
	}
	finite(t, m)
	if m.K > 4 {
		t.Errorf("%d components for 4 points", m.K)
	}
}

func TestFault18SearchIncludesItsUpperEnd(t *testing.T) {
	if diff := cmp.Diff([]int{1}, Every(1, 1).ks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{2, 3, 4}, Every(2, 4).ks); diff != "" {
		t.Error(diff)
	}
	for last := 1; last < 70; last++ {
		ks := Coarse(1, last).ks
		if ks[0] != 1 || ks[len(ks)-1] != last {
			t.Errorf("Coarse(1, %d) is %v", last, ks)
		}
		for i := 1; i < len(ks); i++ {
			if ks[i] <= ks[i-1] {
				t.Errorf("Coarse(1, %d) doesn't ascend: %v", last, ks)
			}
		}
	}
	// Eight well separated blobs: BIC must find eight, at the end of the range.
	d := normal(6, 800, 2, func(i, j int) (float64, float64) { return float64((i % 8 >> (j * 2)) % 4 * 30), 1 })
	m, err := Search(context.Background(), machine(), d, Every(1, 8), func(int) Options { return Reference(2) })
	if err != nil {
		t.Fatal(err)
	}
	if m.K != 8 {
		t.Errorf("%d components for 8 blobs", m.K)
	}
}

func TestKMeansHandlesCoincidingPoints(t *testing.T) {
	d := Data{X: make([]float64, 40), N: 20, Dim: 2}
	label, err := KMeans(context.Background(), machine(), d, 5, 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range label {
		if l != 0 {
			t.Fatalf("labels of equal points: %v", label)
		}
	}
}

func TestFitStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := normal(7, 100, 2, func(i, j int) (float64, float64) { return 0, 1 })
	if _, err := Fit(ctx, machine(), d, 3, Reference(1)); err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
