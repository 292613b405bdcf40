//go:build stack && clients

package weaviate_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
)

// The clients of other systems, from npm, read a collection of ours: what docs/clients.md shows is what runs here.

// clientTree puts two leaves, their summary, and one that the current generation has dropped.
func clientTree(t *testing.T, corpus string, compat ...string) (a, b, sum tree.Node) {
	t.Helper()
	s := connect(t, weaviate.Config{Compat: compat})
	a, b = leaf("guide.md", 0, "Ospreys eat fish."), leaf("guide.md", 1, "Kites eat mice.")
	a.Metadata = map[string]any{"author": "Ann", "page": 7.0, "tags": []string{"x", "y"}}
	sum = tree.Node{
		Level: 1, DocumentID: tree.CorpusTree, ChunkIndex: -1, Scope: tree.ScopeCorpus, Children: []tree.ID{a.ID, b.ID}, Text: "What raptors eat.",
		Tokens: 3, NLeaves: 2, Recipe: "r", Born: 1, Died: tree.Alive, Vector: []float32{0.6, 0.8, 0, 0},
	}
	sum.ID = tree.SummaryID("c", tree.CorpusTree, 1, "r", sum.Children)
	dropped := sum
	dropped.ID, dropped.Text, dropped.Died = tree.ID{1}, "What was true once.", 1
	put(t, s, corpus, a, b, sum, dropped)
	return a, b, sum
}

// client runs a script with a collection's address and returns what it printed.
func client(t *testing.T, script, collection string, into any) error {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".cache", "clients"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", script} {
		text, err := os.ReadFile(filepath.Join("testdata", "clients", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "@llamaindex", "weaviate")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = folder
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm install: %v\n%s", err, out)
		}
	}
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, grpcPort, _ := strings.Cut(server.GRPC, ":")
	run := exec.CommandContext(t.Context(), "node", script, u.Hostname(), u.Port(), grpcPort, collection, "[1,0,0,0]")
	run.Dir = folder
	out, err := run.Output()
	if err != nil {
		var exit *exec.ExitError
		if as, ok := err.(*exec.ExitError); ok {
			exit = as
			return fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s printed %s: %v", script, out, err)
	}
	return nil
}

func TestLangChain(t *testing.T) {
	a, b, sum := clientTree(t, "langchain")
	var found []struct {
		ID, Text string
		Metadata map[string]any
		Distance float64
	}
	if err := client(t, "langchain.mjs", "Aerie_langchain", &found); err != nil {
		t.Fatal(err)
	}
	if len(found) != 3 {
		t.Fatalf("%d documents, want 3: %v", len(found), found)
	}
	for i, want := range []tree.Node{a, sum, b} {
		same(t, "text", found[i].Text, want.Text)
		same(t, "id", found[i].ID, want.ID.String())
	}
	same(t, "metadata of the leaf", found[0].Metadata, map[string]any{
		"author": "Ann", "page": 7.0, "tags": []any{"x", "y"}, "document_id": "guide.md", "chunk_index": 0.0, "raptor_level": 0.0, "tokens": 3.0,
		"born": 0.0, "died": float64(tree.Alive), "n_leaves": 1.0,
	})
	same(t, "level of the summary", found[1].Metadata["raptor_level"], any(1.0))
	same(t, "children of the summary", found[1].Metadata["raptor_child_ids"], any([]any{sum.Children[0].String(), sum.Children[1].String()}))
	if d := found[1].Distance; d < 0.399 || d > 0.401 { // 1 - 0.6
		t.Errorf("distance of the summary is %v, want 0.4", d)
	}
}

func TestLlamaIndex(t *testing.T) {
	a, b, sum := clientTree(t, "llamaindex", weaviate.LlamaIndex)
	var found []struct {
		ID, Node, Text string
		Metadata       map[string]any
	}
	if err := client(t, "llamaindex.mjs", "Aerie_llamaindex", &found); err != nil {
		t.Fatal(err)
	}
	if len(found) != 3 {
		t.Fatalf("%d nodes, want 3: %v", len(found), found)
	}
	for i, want := range []tree.Node{a, sum, b} {
		same(t, "text", found[i].Text, want.Text)
		same(t, "id", found[i].ID, want.ID.String())
		same(t, "id of the node", found[i].Node, want.ID.String())
	}
	for key, want := range map[string]any{"author": "Ann", "page": 7.0, "tags": []any{"x", "y"}, "raptor_level": 0.0} {
		same(t, "metadata "+key, found[0].Metadata[key], want)
	}
}

// Without compat, LlamaIndex refuses what it didn't write. docs/clients.md says so.
func TestLlamaIndexNeedsCompat(t *testing.T) {
	clientTree(t, "llamaplain")
	err := client(t, "llamaindex.mjs", "Aerie_llamaplain", &[]any{})
	if err == nil || !strings.Contains(err.Error(), "Node content not found") {
		t.Errorf("LlamaIndex on a corpus without compat: %v, want that it misses its node content", err)
	}
}
