package weaviate

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/tree"
)

func example() tree.Node {
	return tree.Node{
		Level: 3, ChunkIndex: -1, Scope: tree.ScopeDocument, Recipe: "r", Text: "text\x00\xff", Tokens: 5, NLeaves: 1 << 40, Born: 2, Died: tree.Alive,
		Children: []tree.ID{{1}, {2, 3}}, Vector: []float32{0.25, -1, 3e-40},
		Metadata: map[string]any{
			"t": "text", "n": -2.5, "b": true, "ts": []string{"", "x"}, "ns": []float64{1, 2}, "bs": []bool{true, false},
			"no texts": []string{}, "no numbers": []float64{}, "no bools": []bool{}, "": "", "i": int64(1)<<60 + 1, "is": []int64{-1 << 63, 1},
		},
	}
}

func TestPackedNodeComesBack(t *testing.T) {
	for name, n := range map[string]tree.Node{"full": example(), "empty": {}, "leaf": {Text: "x", Vector: []float32{1}}} {
		got, err := unpackNode(packNode(nil, &n))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(n, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := tree.Node{
			Level: rapid.Int().Draw(t, "level"), ChunkIndex: rapid.Int().Draw(t, "chunk"), Text: rapid.String().Draw(t, "text"),
			Vector: rapid.SliceOf(rapid.Float32()).Draw(t, "vector"), Died: rapid.Int().Draw(t, "died"),
			Metadata: rapid.MapOf(rapid.String(), rapid.OneOf(
				rapid.String().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.SliceOf(rapid.String()).AsAny(),
				rapid.SliceOf(rapid.Float64()).AsAny(), rapid.SliceOf(rapid.Bool()).AsAny())).Draw(t, "metadata"),
		}
		got, err := unpackNode(packNode(nil, &n))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(n, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzUnpackNode(f *testing.F) {
	n := example()
	whole := packNode(nil, &n)
	f.Add(whole)
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := unpackNode(b)
		if err != nil {
			if !errors.Is(err, errPacked) {
				t.Errorf("unpackNode: %v, want errPacked", err)
			}
			return
		}
		again, err := unpackNode(packNode(nil, &got))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, again, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}

// The order is that of the contract, in memory and on disk.
func TestSpoolOrders(t *testing.T) {
	var want []tree.Node
	for _, level := range []int{0, 1, 12} {
		for _, document := range []string{"", "A", "a", "a/2", "é"} {
			for _, chunk := range []int{-1, 0, 3, 20} {
				for _, first := range []byte{1, 0xf0} {
					want = append(want, tree.Node{ID: tree.ID{first, byte(len(want))}, Level: level, DocumentID: document, ChunkIndex: chunk, Text: strings.Repeat("x", len(want)*500)})
				}
			}
		}
	}
	for name, most := range map[string]int{"in memory": 1 << 30, "half and half": 1 << 20, "on disk": 1} {
		t.Run(name, func(t *testing.T) {
			shuffled := slices.Clone(want)
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			p := newSpool(t.TempDir(), most)
			defer p.close()
			for range 2 { // begun anew
				p.reset()
				for _, n := range shuffled {
					if err := p.add(&n); err != nil {
						t.Fatal(err)
					}
				}
			}
			var got []tree.Node
			if err := p.each(t.Context(), func(n *tree.Node) error { got = append(got, *n); return nil }); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	p := newSpool(t.TempDir()+"/missing", 1)
	if err := p.add(&want[9]); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a spool in a folder that isn't there: %v, want an error that names it", err)
	}
}
