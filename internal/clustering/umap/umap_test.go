package umap

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/clustering/golden"
	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/clustering/knn"
)

func machine() kernel.Machine {
	return kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}
}

// table is a table of neighbors from two arrays.
type table struct {
	k        int
	index    []int32
	distance []float32
}

func (t table) Size() (n, k int) { return len(t.index) / t.k, t.k }
func (t table) Neighbor(i, place int) (int32, float32) {
	return t.index[i*t.k+place], t.distance[i*t.k+place]
}

func goldenTable(t testing.TB) table {
	d := golden.Load[float64](t, "knn_dist_600x15_f64.npy")
	out := table{k: 15, index: golden.Load[int32](t, "knn_idx_600x15_i32.npy"), distance: make([]float32, len(d))}
	for i, v := range d {
		out.distance[i] = float32(v)
	}
	return out
}

func TestCurveAgreesWithUmapLearn(t *testing.T) {
	for _, want := range golden.Read(t).AB {
		got := fitCurve(want.Spread, want.MinDist)
		if math.Abs(got.A-want.A) > 1e-6 || math.Abs(got.B-want.B) > 1e-6 {
			t.Errorf("spread %g, least distance %g: a %.9f, b %.9f, want %.9f, %.9f", want.Spread, want.MinDist, got.A, got.B, want.A, want.B)
		}
	}
	if got, want := DefaultCurve(), fitCurve(1, 0.1); math.Abs(got.A-want.A) > 1e-6 || math.Abs(got.B-want.B) > 1e-6 {
		t.Errorf("default curve %+v, want %+v", got, want)
	}
}

func TestSmoothAgreesWithUmapLearn(t *testing.T) {
	rho, sigma, err := Smooth(context.Background(), machine(), goldenTable(t))
	if err != nil {
		t.Fatal(err)
	}
	wantRho, wantSigma := golden.Load[float32](t, "umap_rho_600_f32.npy"), golden.Load[float32](t, "umap_sigma_600_f32.npy")
	for i := range rho {
		if math.Abs(float64(rho[i]-wantRho[i])) > 1e-5 {
			t.Errorf("rho of row %d is %g, want %g", i, rho[i], wantRho[i])
		}
		if math.Abs(float64(sigma[i]/wantSigma[i])-1) > 1e-3 {
			t.Errorf("sigma of row %d is %g, want %g", i, sigma[i], wantSigma[i])
		}
	}
}

func edges(g *Graph) map[[2]int32]float64 {
	out := make(map[[2]int32]float64)
	for i := range g.N {
		for e := g.Offset[i]; e < g.Offset[i+1]; e++ {
			out[[2]int32{int32(i), g.Col[e]}] = float64(g.Weight[e])
		}
	}
	return out
}

func goldenEdges(t testing.TB, name string) map[[2]int32]float64 {
	row, col := golden.Load[int32](t, name+"_row_i32.npy"), golden.Load[int32](t, name+"_col_i32.npy")
	val := golden.Load[float32](t, name+"_val_f32.npy")
	out := make(map[[2]int32]float64)
	for i, v := range val {
		if row[i] != col[i] && v > 0 { // umap-learn lists each row as its own neighbor, with weight 0
			out[[2]int32{row[i], col[i]}] = float64(v)
		}
	}
	return out
}

func compareEdges(t *testing.T, got, want map[[2]int32]float64) {
	t.Helper()
	for e, w := range want {
		if g, ok := got[e]; !ok && w > 1e-4 || math.Abs(g-w) > 1e-4 {
			t.Errorf("edge %v weighs %g, want %g", e, g, w)
		}
	}
	for e, g := range got {
		if _, ok := want[e]; !ok && g > 1e-4 {
			t.Errorf("edge %v weighs %g, want none", e, g)
		}
	}
}

func TestGraphAgreesWithUmapLearn(t *testing.T) {
	nn := goldenTable(t)
	rho, sigma, err := Smooth(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	one, err := directed(context.Background(), machine(), nn, rho, sigma)
	if err != nil {
		t.Fatal(err)
	}
	compareEdges(t, edges(one), goldenEdges(t, "umap_directed"))
	both, err := Fuzzy(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	got := edges(both)
	compareEdges(t, got, goldenEdges(t, "umap_graph"))
	for e, w := range got {
		if got[[2]int32{e[1], e[0]}] != w {
			t.Errorf("edge %v weighs %g, its mirror %g", e, w, got[[2]int32{e[1], e[0]}])
		}
	}
}

func noise(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 5))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// Rows with known axes: independent coordinates of falling variance.
func TestPrincipalFindsTheAxes(t *testing.T) {
	const n, d = 900, 40
	x := noise(1, n*d)
	for i := range x {
		switch i % d {
		case 7:
			x[i] *= 20
		case 3:
			x[i] *= 10
		case 30:
			x[i] *= 5
		}
		x[i] += 3 // a mean, which must not count
	}
	for _, set := range kernel.All() {
		y, err := Principal(context.Background(), kernel.Machine{Set: set, Workers: 2}, kernel.Rows{X: x, Dim: d}, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		for j, feature := range []int{7, 3, 30} {
			var xy, xx, yy, mean float64
			for i := range n {
				mean += float64(x[i*d+feature]) / n
			}
			for i := range n {
				a, b := float64(x[i*d+feature])-mean, float64(y[i*3+j])
				xy, xx, yy = xy+a*b, xx+a*a, yy+b*b
			}
			// The largest loading is positive, so the correlation is.
			if r := xy / math.Sqrt(xx*yy); r < 0.98 {
				t.Errorf("%s: axis %d has correlation %g with coordinate %d", set.Name, j, r, feature)
			}
		}
	}
}

func TestPrincipalOfFlatRows(t *testing.T) {
	// One dimension only; more axes than numbers.
	x := make([]float32, 20*4)
	for i := range 20 {
		x[i*4] = float32(i)
	}
	y, err := Principal(context.Background(), machine(), kernel.Rows{X: x, Dim: 4}, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if want := float32(i) - 9.5; math.Abs(float64(y[i*6]-want)) > 1e-4 {
			t.Errorf("first coordinate of row %d is %g, want %g", i, y[i*6], want)
		}
		for j := 1; j < 6; j++ {
			if math.Abs(float64(y[i*6+j])) > 1e-3 {
				t.Errorf("coordinate %d of row %d is %g, want 0", j, i, y[i*6+j])
			}
		}
	}
}

// unit scales rows to unit length.
func unit(x []float32, d int) kernel.Rows {
	scale := make([]float64, len(x)/d)
	for i := range scale {
		scale[i] = 1 / kernel.Norm(x[i*d:(i+1)*d])
	}
	return kernel.Rows{X: x, Dim: d, Scale: scale}
}

func project(t testing.TB, m kernel.Machine, rows kernel.Rows, k, dim int) []float32 {
	t.Helper()
	ctx := context.Background()
	nn, err := knn.Exact(ctx, m, rows, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Fuzzy(ctx, m, nn)
	if err != nil {
		t.Fatal(err)
	}
	start, err := Principal(ctx, m, rows, dim, 3)
	if err != nil {
		t.Fatal(err)
	}
	y, err := Layout(ctx, m, g, start, Options{Dim: dim, Epochs: Epochs, Seed: 9, Curve: DefaultCurve()})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range y {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			t.Fatalf("coordinate %d of the layout is %g", i, v)
		}
	}
	return y
}

func TestLayoutIsTheSameForAnyWorkersAndSet(t *testing.T) {
	x := golden.Load[float32](t, "x_600x384_f32.npy")[:150*384]
	rows := unit(x, 384)
	for _, dim := range []int{2, 10, 20} {
		var want []float32
		for _, set := range kernel.All() {
			for _, workers := range []int{1, 2, 3, 7} {
				if set.Name == "go" && (workers != 2 || dim != 10) {
					continue // exact twins of fused operations are slow
				}
				got := project(t, kernel.Machine{Set: set, Workers: workers}, rows, 15, dim)
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %d workers, %d dimensions: layouts differ", set.Name, workers, dim)
				}
			}
		}
	}
}

// nearestInLayout returns the k nearest rows in y, by plain comparison.
func nearestInLayout(y []float32, dim, i, k int) map[int32]bool {
	n := len(y) / dim
	used := make(map[int32]bool, k)
	for range k {
		best, at := math.Inf(1), -1
		for j := range n {
			if j == i || used[int32(j)] {
				continue
			}
			var s float64
			for t := range dim {
				v := float64(y[i*dim+t] - y[j*dim+t])
				s += v * v
			}
			if s < best {
				best, at = s, j
			}
		}
		used[int32(at)] = true
	}
	return used
}

// umap-learn keeps .52 of the 15 nearest neighbors of the whole document these rows are from (five seeds, .524 to .529);
// 600 of its rows are easier.
func TestLayoutKeepsNeighbors(t *testing.T) {
	x := golden.Load[float32](t, "x_600x384_f32.npy")
	y := project(t, machine(), unit(x, 384), 15, 10)
	nn := goldenTable(t)
	kept := 0
	for i := range 600 {
		near := nearestInLayout(y, 10, i, 15)
		for p := range 15 {
			if j, _ := nn.Neighbor(i, p); near[j] {
				kept++
			}
		}
	}
	if share := float64(kept) / (600 * 15); share < 0.52 {
		t.Errorf("%.3f of the 15 nearest neighbors are kept, want at least 0.52", share)
	}
}

func TestLayoutStopsWithItsContext(t *testing.T) {
	nn := goldenTable(t)
	g, err := Fuzzy(context.Background(), machine(), nn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	epochs := 0
	_, err = Layout(ctx, machine(), g, noise(1, 1200), Options{Dim: 2, Epochs: 100, Curve: DefaultCurve(),
		Progress: func(done, _ int) {
			epochs = done
			if done == 3 {
				cancel()
			}
		}})
	if err != context.Canceled || epochs != 3 {
		t.Errorf("got %v after %d epochs, want %v after 3", err, epochs, context.Canceled)
	}
}
