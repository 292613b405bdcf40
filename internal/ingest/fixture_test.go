package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

var allFields = store.Fields{Text: true, Vector: true, Metadata: true}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embedder is a model whose vectors are hashes of the texts. It counts what it was paid for.
type embedder struct {
	name  string
	width int
	fail  func(texts []string) error // may be nil

	mu    sync.Mutex
	texts []string // embedded
}

func (e *embedder) Name() string { return e.name }

func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		if err := e.fail(texts); err != nil {
			return nil, err
		}
	}
	e.texts = append(e.texts, texts...)
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = hashed(text, e.width)
	}
	return out, nil
}

func (e *embedder) EmbedQuery(_ context.Context, text string) ([]float32, error) {
	return hashed(text, e.width), nil
}

// paid returns the number of texts embedded since the last call.
func (e *embedder) paid() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.texts)
	e.texts = nil
	return n
}

// hashed returns a vector that isn't of unit length.
func hashed(text string, width int) []float32 {
	v := make([]float32, width)
	for i := range v {
		h := fnv.New32a()
		fmt.Fprintf(h, "%d %s", i, text)
		v[i] = float32(h.Sum32()%2000)/1000 - 0.9995
	}
	return v
}

// world is a store with everything around it.
type world struct {
	t       *testing.T
	dir     string
	nodes   store.Store
	corpora levels.Corpora
	model   *embedder
	cfg     Config
	open    bool // a build is
}

func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), nodes: storetest.NewMemory(), corpora: leveltest.NewMemory().Corpora(), model: &embedder{name: "test/model", width: 8}}
	w.cfg = Config{Base: w.dir, ChunkTokens: 20, EmbedItems: 3, PutItems: 5, Erase: func(ctx context.Context, _ string, ids []tree.ID, away Away) error {
		if w.open {
			return nil
		}
		return away(ctx, w.nodes, ids)
	}}
	for name, text := range files {
		w.write(name, text)
	}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ingester() *Ingester {
	w.t.Helper()
	in, err := New(w.cfg, w.nodes, w.corpora, w.model)
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

// ingest reads the named files and folders, which must succeed.
func (w *world) ingest(names ...string) api.IngestReport {
	w.t.Helper()
	report, err := w.try(context.Background(), Request{}, names...)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func (w *world) try(ctx context.Context, req Request, names ...string) (api.IngestReport, error) {
	w.t.Helper()
	req.Corpus = "c"
	for _, name := range names {
		if name != "-" {
			name = w.path(name)
		}
		req.Paths = append(req.Paths, name)
	}
	return w.ingester().Ingest(ctx, req)
}

// leaves returns the leaves that a reader sees, with everything.
func (w *world) leaves() []tree.Node {
	w.t.Helper()
	var out []tree.Node
	err := w.nodes.Each(context.Background(), "c", store.Leaves().VisibleAt(0), allFields, func(n *tree.Node) error {
		out = append(out, *n)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// texts returns the visible leaves as "document#index text".
func (w *world) texts() []string {
	w.t.Helper()
	var out []string
	for _, n := range w.leaves() {
		out = append(out, fmt.Sprintf("%s#%d %s", n.DocumentID, n.ChunkIndex, n.Text))
	}
	return out
}

func (w *world) record() *levels.Corpus {
	w.t.Helper()
	c, err := w.corpora.Load(context.Background(), "c")
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// grown returns by how much the count of changes grew during do.
func (w *world) grown(do func()) int {
	w.t.Helper()
	before := int64(0)
	if c, err := w.corpora.Load(context.Background(), "c"); err == nil {
		before = c.Changes
	}
	do()
	return int(w.record().Changes - before)
}

// sentences returns n sentences of 10 tokens, numbered from a number on; two make a leaf of this file's worlds.
func sentences(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Sentence number %d of this text says nothing. ", from+i)
	}
	return b.String()
}

// rows makes JSONL of maps.
func rows(list ...map[string]any) string {
	var b strings.Builder
	for _, row := range list {
		data, err := json.Marshal(row)
		if err != nil {
			panic(err)
		}
		b.Write(append(data, '\n'))
	}
	return b.String()
}

type row = map[string]any

// unit reports whether a vector has length 1.
func unit(v []float32) bool {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Abs(sum-1) < 1e-5
}
