package clustering

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// level is one level with its clusters, as it goes through a history.
type level struct {
	in    Input
	grown []Grown
}

// slots are the clusters of a level where some of its rows stand at another place now, or nowhere (-1).
func (l *level) slots(now []int) []Slot {
	out := make([]Slot, len(l.grown))
	for i, g := range l.grown {
		out[i].Formed = g.Formed
		for _, row := range g.Rows {
			if now[row] >= 0 {
				out[i].Members = append(out[i].Members, now[row])
			} else {
				out[i].Changed = true
			}
		}
		slices.Sort(out[i].Members)
	}
	return out
}

// step deletes some rows of a level, and puts new ones among the rest.
func (l *level) step(rng *rand.Rand, more Input, keep float64) (Input, []Slot) {
	in := Input{D: l.in.D}
	now := make([]int, l.in.N)
	add := func(from Input, i int) {
		in.X = append(in.X, from.X[i*in.D:(i+1)*in.D]...)
		in.Tokens = append(in.Tokens, from.Tokens[i])
		in.N++
	}
	next := 0
	for i := range l.in.N {
		for next < more.N && rng.IntN(l.in.N+1) < more.N {
			add(more, next)
			next++
		}
		if now[i] = -1; rng.Float64() < keep {
			now[i] = in.N
			add(l.in, i)
		}
	}
	for ; next < more.N; next++ {
		add(more, next)
	}
	return in, l.slots(now)
}

func checkGrowth(cfg Config, in Input, slots []Slot, g Growth) error {
	r := Result{Stopped: g.Stopped}
	if len(g.Clusters) == 0 && g.Stopped == "" {
		return fmt.Errorf("no clusters and no reason")
	}
	kept := map[int]bool{}
	for i, c := range g.Clusters {
		r.Clusters = append(r.Clusters, c.Rows)
		switch {
		case c.Slot < -1 || c.Slot >= len(slots) || c.From < -1 || c.From >= len(slots) || c.Slot >= 0 && c.From >= 0:
			return fmt.Errorf("cluster %d has slot %d, from %d", i, c.Slot, c.From)
		case c.Slot >= 0 && kept[c.Slot]:
			return fmt.Errorf("slot %d is kept twice", c.Slot)
		case c.Slot >= 0:
			kept[c.Slot] = true
		}
	}
	for _, m := range g.Merged {
		if kept[m.Slot] || m.Into >= 0 && !kept[m.Into] {
			return fmt.Errorf("slot %d is said to be merged into %d", m.Slot, m.Into)
		}
		kept[m.Slot] = true
	}
	for i, s := range slots {
		if len(g.Clusters) > 0 && len(s.Members) > 0 && !kept[i] {
			return fmt.Errorf("slot %d is neither kept nor merged", i)
		}
	}
	return check(cfg, in, r)
}

// unchanged are the slots of a growth over the same rows.
func unchanged(g Growth) []Slot {
	out := make([]Slot, len(g.Clusters))
	for i, c := range g.Clusters {
		out[i] = Slot{Members: c.Rows, Formed: c.Formed}
	}
	return out
}

func rowsOfGrowth(g Growth) [][]int {
	var out [][]int
	for _, c := range g.Clusters {
		out = append(out, c.Rows)
	}
	return out
}

// TestGrowKeepsTheRules goes through random histories: after each step the rules of Cluster hold, nothing is lost, and a
// growth without change moves nothing.
func TestGrowKeepsTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 9))
		d := rapid.IntRange(1, 16).Draw(t, "d")
		spread := rapid.SampledFrom([]float64{0, 0.3, 3}).Draw(t, "spread")
		mean := rapid.SampledFrom([]int{0, 1, 100, 3000}).Draw(t, "tokens")
		cfg := DefaultConfig()
		cfg.Mode = rapid.SampledFrom(modes).Draw(t, "mode")
		cfg.MaxClusterTokens = rapid.SampledFrom([]int{1, 150, 1000, 3500, math.MaxInt}).Draw(t, "cap")
		cfg.TargetClusterSize = rapid.SampledFrom([]int{0, 0, 0, 7, 50}).Draw(t, "target")
		cfg.MaxClusters = rapid.SampledFrom([]int{0, 0, 0, 2, 20}).Draw(t, "max")
		made := uint64(0)
		rows := func(n int) Input {
			made++
			in := Input{X: blobs(seed+made, n, d, 6, spread), N: n, D: d, Tokens: make([]int, n)}
			for i := range n {
				if kernel.Norm(in.X[i*d:(i+1)*d]) == 0 {
					in.X[i*d] = 1
				}
				in.Tokens[i] = rng.IntN(2*mean + 1)
			}
			return in
		}
		l := &level{in: rows(rapid.IntRange(0, 120).Draw(t, "n"))}
		var slots []Slot
		in := l.in
		for step := range 4 {
			g, err := Grow(context.Background(), cfg, in, slots)
			if err == nil {
				err = checkGrowth(cfg, in, slots, g)
			}
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if len(g.Clusters) > 0 {
				again, err := Grow(context.Background(), cfg, in, unchanged(g))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(rowsOfGrowth(g), rowsOfGrowth(again)); diff != "" {
					t.Fatalf("step %d: a growth without change moves rows: %s", step, diff)
				}
			}
			l.in, l.grown = in, g.Clusters
			more := rows(rapid.SampledFrom([]int{0, 1, 5, 40, 200}).Draw(t, "more"))
			in, slots = l.step(rng, more, rapid.SampledFrom([]float64{1, 1, 0.95, 0.5, 0.05}).Draw(t, "keep"))
		}
	})
}

// TestGrowOnAnyCores: the same bits on 1, 2 and 7 workers, and with every instruction set.
func TestGrowOnAnyCores(t *testing.T) {
	all := medical(t, 240)
	part := func(lo, hi int) Input {
		return Input{X: all.X[lo*all.D : hi*all.D], N: hi - lo, D: all.D, Tokens: all.Tokens[lo:hi]}
	}
	cfg := DefaultConfig()
	first := mustGrow(t, cfg, part(0, 160), nil)
	l := &level{in: part(0, 160), grown: first.Clusters}
	in, slots := l.step(rand.New(rand.NewPCG(1, 2)), part(160, 240), 0.9)
	want := mustGrow(t, cfg, in, slots)
	for _, set := range kernel.All() {
		for _, workers := range []int{1, 2, 7} {
			got, err := grow(context.Background(), kernel.Machine{Set: set, Workers: workers}, cfg, in, slots)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Clusters, got.Clusters); diff != "" {
				t.Errorf("%d workers: %s", workers, diff)
			}
		}
	}
}

func mustGrow(t testing.TB, cfg Config, in Input, slots []Slot) Growth {
	t.Helper()
	g, err := Grow(context.Background(), cfg, in, slots)
	if err == nil {
		err = checkGrowth(cfg, in, slots, g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGrowMovesLittle: a tenth more rows leave nearly all of the old ones where they were.
func TestGrowMovesLittle(t *testing.T) {
	all := medical(t, 600)
	in := Input{X: all.X[:540*all.D], N: 540, D: all.D, Tokens: all.Tokens[:540]}
	cfg := DefaultConfig()
	first := mustGrow(t, cfg, in, nil)
	slots := unchanged(first)
	g := mustGrow(t, cfg, all, slots)
	stayed, rows := 0, 0
	for _, c := range g.Clusters {
		for _, row := range c.Rows {
			if row >= 540 {
				continue
			}
			rows++
			if c.Slot >= 0 && slices.Contains(slots[c.Slot].Members, row) {
				stayed++
			}
		}
	}
	if stayed < rows*85/100 {
		t.Errorf("%d of %d places of rows are where they were", stayed, rows)
	}
}

// TestGrowSplitsWhatHasOutgrown: the half that was there before keeps the slot.
func TestGrowSplitsWhatHasOutgrown(t *testing.T) {
	x := []float32{1, 0, 0, 1, 0.01, 0, 1, 0.02, 0, 0, 0, 1, 0, 0.01, 1, 0, 1, 0, 0.01, 1, 0, 0.02, 1, 0}
	in := Input{X: x, N: 8, D: 3, Tokens: same(8, 100)}
	slots := []Slot{{Members: []int{0, 1, 2}, Formed: 300}, {Members: []int{3, 4}, Formed: 200}}
	cfg := DefaultConfig()
	g := mustGrow(t, cfg, in, slots)
	want := []Grown{
		{Rows: []int{0, 1, 2}, Slot: 0, From: -1, Formed: 300},
		{Rows: []int{3, 4}, Slot: 1, From: -1, Formed: 200},
		{Rows: []int{5, 6, 7}, Slot: -1, From: 0, Formed: 300},
	}
	if diff := cmp.Diff(want, g.Clusters); diff != "" {
		t.Error(diff)
	}
}

// TestGrowMergesWhatIsLeftOver: a slot of one row joins the most similar one, and two remain at the top.
func TestGrowMergesWhatIsLeftOver(t *testing.T) {
	x := []float32{1, 0, 1, 0.1, 1, 0.2, 0.1, 1, 0, 1, 0.2, 1}
	in := Input{X: x, N: 6, D: 2, Tokens: same(6, 100)}
	cfg := DefaultConfig()
	g := mustGrow(t, cfg, in, []Slot{{Members: []int{0, 1}}, {Members: []int{2}, Changed: true}, {Members: []int{3, 4, 5}}})
	if diff := cmp.Diff([][]int{{0, 1, 2}, {3, 4, 5}}, rowsOfGrowth(g)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Merger{{Slot: 1, Into: 0}}, g.Merged); diff != "" {
		t.Error(diff)
	}
	g = mustGrow(t, cfg, in, []Slot{{Members: []int{0, 1, 2, 3, 4, 5}, Changed: true}})
	if len(g.Clusters) != 2 {
		t.Errorf("one slot that is left gives %v", rowsOfGrowth(g))
	}
}

func TestGrowRefusesBadSlots(t *testing.T) {
	in := rowsOf(blobs(1, 10, 4, 2, 0.3), 4, 100)
	for want, slots := range map[string][]Slot{
		"slot 1 aren't ascending": {{Members: []int{0}}, {Members: []int{3, 2}}},
		"slot 0 aren't ascending": {{Members: []int{10}}},
		"2 members and 1 counts":  {{Members: []int{1, 2}, Seen: []int{1}}},
	} {
		if _, err := Grow(context.Background(), DefaultConfig(), in, slots); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	in.X[5] = float32(math.NaN())
	if _, err := Grow(context.Background(), DefaultConfig(), in, []Slot{{Members: []int{0, 1}}}); err == nil || !strings.Contains(err.Error(), "row 1 is not finite") {
		t.Errorf("got %v", err)
	}
}

// FuzzGrow takes any slots over any rows: an error, or the rules.
func FuzzGrow(f *testing.F) {
	f.Add(uint64(1), 40, 100, []byte{0, 1, 2, 255, 3, 4, 5, 6, 255, 7, 8, 1})
	f.Add(uint64(2), 30, 3000, []byte{0, 255, 0, 255, 1, 2, 3})
	f.Add(uint64(3), 13, 0, []byte{})
	f.Fuzz(func(t *testing.T, seed uint64, n, tokens int, script []byte) {
		n, tokens = 1+int(uint(n)%200), int(uint(tokens)%4000)
		in := rowsOf(blobs(seed, n, 4, 3, 0.5), 4, tokens)
		for i := range n {
			if kernel.Norm(in.X[4*i:4*i+4]) == 0 {
				in.X[4*i] = 1
			}
		}
		slots := []Slot{{}}
		for _, b := range script {
			s := &slots[len(slots)-1]
			if b == 255 {
				slots = append(slots, Slot{Changed: len(s.Members)%2 == 0})
				continue
			}
			s.Members = append(s.Members, int(b)%n)
		}
		for i := range slots {
			slices.Sort(slots[i].Members)
			slots[i].Members = slices.Compact(slots[i].Members)
		}
		mustGrow(t, DefaultConfig(), in, slots)
	})
}
