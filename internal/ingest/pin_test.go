package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/npy"
)

// FAULTS: infiniflow/ragflow 12675.
func TestAnotherEmbedderIsRefused(t *testing.T) {
	w := newWorld(t, map[string]string{"a.md": "A.", "b.md": "B."})
	w.ingest("a.md")
	for name, model := range map[string]*embedder{"another name": {name: "other/model", width: 8}, "another width": {name: "test/model", width: 9}} {
		w.model = model
		_, err := w.try(context.Background(), Request{}, "b.md")
		if !errors.Is(err, api.ErrPinned) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, part := range []string{"corpus c holds vectors of test/model (8 wide); this config embeds with " + model.name, "--embeddings.", "another --corpus", "aerie delete --all --yes"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q doesn't say %q", name, err, part)
			}
		}
		if diff := cmp.Diff([]string{"a.md#0 A."}, w.texts()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestGivenVectors(t *testing.T) {
	given := row{"id": "a", "text": "A.", "embedding": []float64{3, 0, 4}}
	bare := row{"id": "b", "text": "B."}
	other := row{"id": "c", "text": "C.", "embedding": []float64{0, 2, 0}}
	wide := row{"id": "d", "text": "D.", "embedding": []float64{1, 2, 3, 4}}
	lexical := func() *embedder { return &embedder{name: "lexical-1", width: 3} }
	openai := func() *embedder { return &embedder{name: "openai/x", width: 3} }
	for _, test := range []struct {
		name   string
		model  *embedder
		first  []row // ingested before, under
		before *embedder
		rows   []row
		pinned string
		texts  []string
		says   []string // of the errors, in order
	}{
		{"alone", lexical(), nil, nil, []row{given, other}, levels.Given, []string{"a#0 A.", "c#0 C."}, nil},
		{"alone, with a model", openai(), nil, nil, []row{given, other}, "openai/x", []string{"a#0 A.", "c#0 C."}, nil},
		{"mixed, with a model", openai(), nil, nil, []row{given, bare, other}, "openai/x", []string{"a#0 A.", "b#0 B.", "c#0 C."}, nil},
		{"then a bare one", lexical(), nil, nil, []row{given, bare, other}, levels.Given, []string{"a#0 A.", "c#0 C."}, []string{"it has no vector, but corpus c holds ready-made ones"}},
		{"after a bare one", lexical(), nil, nil, []row{bare, given}, "lexical-1", []string{"b#0 B."}, []string{"it brings a vector, but corpus c holds vectors of lexical-1"}},
		{"another width", lexical(), nil, nil, []row{given, wide, other}, levels.Given, []string{"a#0 A.", "c#0 C."}, []string{"its vector is 4 wide, those of corpus c are 3"}},
		{"later", lexical(), []row{given}, lexical(), []row{other, bare}, levels.Given, []string{"a#0 A.", "c#0 C."}, []string{"it has no vector"}},
		{"later, with a model", openai(), []row{given}, lexical(), []row{other, bare}, levels.Given, []string{"a#0 A.", "b#0 B.", "c#0 C."}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			if test.first != nil {
				w.model = test.before
				w.write("first.jsonl", rows(test.first...))
				w.ingest("first.jsonl")
			}
			w.model = test.model
			w.write("r.jsonl", rows(test.rows...))
			report := w.ingest("r.jsonl")
			if c := w.record(); c.Embedder != test.pinned || c.Width != 3 {
				t.Errorf("pinned %q, %d wide", c.Embedder, c.Width)
			}
			if diff := cmp.Diff(test.texts, w.texts()); diff != "" {
				t.Error(diff)
			}
			if len(report.Errors) != len(test.says) {
				t.Fatalf("%+v", report.Errors)
			}
			for i, says := range test.says {
				if !strings.Contains(report.Errors[i].Error, says) {
					t.Errorf("%q doesn't say %q", report.Errors[i].Error, says)
				}
			}
			for _, n := range w.leaves() {
				if n.DocumentID == "a" {
					if diff := cmp.Diff([]float32{0.6, 0, 0.8}, n.Vector); diff != "" {
						t.Error(diff)
					}
				}
			}
		})
	}
}

// A model of another width can't embed into a corpus of ready-made vectors.
func TestGivenVectorsOfAnotherWidthThanTheModels(t *testing.T) {
	w := newWorld(t, map[string]string{"r.jsonl": rows(row{"id": "a", "text": "A.", "embedding": []float64{1, 0, 0}}), "b.md": "B."})
	w.model = &embedder{name: "lexical-1", width: 384}
	w.ingest("r.jsonl")
	w.model = &embedder{name: "openai/x", width: 1536}
	if _, err := w.try(context.Background(), Request{}, "b.md"); !errors.Is(err, api.ErrPinned) || !strings.Contains(err.Error(), "(3 wide); this config embeds with openai/x (1536 wide)") {
		t.Errorf("%v", err)
	}
}

func TestAVectorThatChangedIsWritten(t *testing.T) {
	w := newWorld(t, map[string]string{"r.jsonl": rows(row{"id": "a", "text": "A.", "embedding": []float64{1, 0}}, row{"id": "b", "text": "B.", "embedding": []float64{0, 1}})})
	w.ingest("r.jsonl")
	w.write("r.jsonl", rows(row{"id": "a", "text": "A.", "embedding": []float64{0, 2}}, row{"id": "b", "text": "B.", "embedding": []float64{0, 7}}))
	grown := w.grown(func() {
		if diff := cmp.Diff(api.DocumentCounts{Changed: 1, Unchanged: 1}, w.ingest("r.jsonl").Documents); diff != "" {
			t.Error(diff)
		}
	})
	if grown != 1 {
		t.Errorf("grown by %d", grown)
	}
	for _, n := range w.leaves() {
		if diff := cmp.Diff([]float32{0, 1}, n.Vector); diff != "" {
			t.Errorf("%s: %s", n.DocumentID, diff)
		}
	}
}

// vectors writes a .npy file.
func (w *world) vectors(name string, width int, data ...float32) string {
	w.t.Helper()
	var b bytes.Buffer
	if err := npy.Write(&b, len(data)/width, width, data); err != nil {
		w.t.Fatal(err)
	}
	w.write(name, b.String())
	return w.path(name)
}

func TestVectorsFromAFile(t *testing.T) {
	input := rows(row{"id": "a", "text": "A.", "embedding": []float64{9, 9, 9}}) + "\nbroken\n" + rows(row{"id": "b", "text": "B."}, row{"id": "z", "text": "Zero."}, row{"id": "n", "text": "NaN."})
	more := rows(row{"id": "c", "text": "C."})
	nan := float32(math.NaN())
	data := []float32{1, 0, 7, 7, 0, 2, 0, 0, 1, nan, 0, -3}
	for _, name := range []string{"files", "standard input"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.jsonl": input, "b.jsonl": more})
			w.model.name = "lexical-1"
			req, names := Request{Vectors: w.vectors("v.npy", 2, data...)}, []string{"a.jsonl", "b.jsonl"}
			if name == "standard input" {
				req.Stdin, names = strings.NewReader(input), []string{"-", "b.jsonl"}
			}
			report, err := w.try(context.Background(), req, names...)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]float32{}
			for _, n := range w.leaves() {
				got[n.DocumentID] = n.Vector
			}
			if diff := cmp.Diff(map[string][]float32{"a": {1, 0}, "b": {0, 1}, "c": {0, -1}}, got); diff != "" {
				t.Error(diff)
			}
			var says []string
			for _, p := range report.Errors {
				says = append(says, fmt.Sprintf("%d: %s", p.Line, p.Error))
			}
			want := []string{"3: not a JSON object", "5: " + w.path("v.npy") + " row 3: the vector is all zero", "6: " + w.path("v.npy") + " row 4: the vector holds NaN at index 1"}
			if diff := cmp.Diff(want, says); diff != "" {
				t.Error(diff)
			}
			if w.record().Embedder != levels.Given || w.model.paid() != 0 {
				t.Errorf("pinned %q", w.record().Embedder)
			}
		})
	}
}

func TestVectorsMustMatchTheRows(t *testing.T) {
	for name, test := range map[string]struct {
		data []float32
		says string
	}{
		"too few":  {[]float32{1, 2}, "v.npy holds 1 vectors, but the input has 2 rows"},
		"too many": {[]float32{1, 2, 3, 4, 5, 6}, "v.npy holds 3 vectors, but the input has 2 rows"},
	} {
		w := newWorld(t, map[string]string{"r.jsonl": rows(row{"id": "a", "text": "A."}, row{"id": "b", "text": "B."})})
		_, err := w.try(context.Background(), Request{Vectors: w.vectors("v.npy", 2, test.data...)}, "r.jsonl")
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.corpora.Load(context.Background(), "c"); !errors.Is(err, levels.ErrNotFound) {
			t.Errorf("%s: something was written: %v", name, err)
		}
	}
	w := newWorld(t, map[string]string{"r.jsonl": rows(row{"id": "a", "text": "A."}), "bad.npy": "hello"})
	if _, err := w.try(context.Background(), Request{Vectors: w.path("bad.npy")}, "r.jsonl"); !errors.Is(err, npy.ErrFormat) {
		t.Errorf("a bad file: %v", err)
	}
	if _, err := w.try(context.Background(), Request{Vectors: w.path("none.npy")}, "r.jsonl"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	w.ingest("r.jsonl") // 8 wide
	if _, err := w.try(context.Background(), Request{Vectors: w.vectors("v.npy", 2, 1, 2)}, "r.jsonl"); !errors.Is(err, api.ErrPinned) || !strings.Contains(err.Error(), "vectors 2 wide, but those of corpus c are 8") {
		t.Errorf("another width: %v", err)
	}
}
