//go:build stack && scale

package fleettest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/sqlite"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// leavesAtScale is how many leaves there are; LEAVES says otherwise.
func leavesAtScale(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("LEAVES"))
	if err != nil {
		t.Fatalf("LEAVES: %v", err)
	}
	return n
}

const leavesOfDocument = 20

// fill writes leaves without texts worth reading.
func fill(t *testing.T, s store.Store, corpus string, n int) {
	t.Helper()
	const batch = 5000
	began := time.Now()
	starts, errs := make(chan int), make(chan error, 8)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for from := range starts {
				random := rand.New(rand.NewPCG(uint64(from), 1))
				nodes := make([]tree.Node, min(batch, n-from))
				for i := range nodes {
					at := from + i
					document, text := fmt.Sprintf("document-%07d", at/leavesOfDocument), strconv.Itoa(at)
					nodes[i] = tree.Node{
						ID: tree.LeafID(corpus, document, at%leavesOfDocument, text), DocumentID: document, ChunkIndex: at % leavesOfDocument, Text: text,
						Tokens: 1, NLeaves: 1, Died: tree.Alive, Vector: []float32{random.Float32() + 1, random.Float32(), random.Float32(), random.Float32()},
					}
				}
				if err := s.Put(t.Context(), corpus, nodes); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for from := 0; from < n && len(errs) == 0; from += batch {
		starts <- from
		if from%(20*batch) == 0 {
			fmt.Printf("%d leaves, %v\n", from, time.Since(began).Round(time.Second))
		}
	}
	close(starts)
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	fmt.Printf("%d leaves written in %v\n", n, time.Since(began).Round(time.Second))
}

// within reports how long something took, which must be below a second.
func within(t *testing.T, what string, do func() error) {
	t.Helper()
	for range 3 {
		began := time.Now()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		took := time.Since(began)
		fmt.Printf("%s: %v\n", what, took.Round(time.Millisecond))
		if took > time.Second {
			t.Errorf("%s took %v, want less than a second", what, took)
		}
	}
}

// TestA27AtScale: a status and a page of documents of a large corpus on a fleet, first and later ones.
func TestA27AtScale(t *testing.T) {
	n := leavesAtScale(t)
	f := newFleet(t, llmtest.Config{}, nil)
	leader := f.coordinator() // which makes what the places need
	places := f.open()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(places.Corpora.Update(t.Context(), f.corpus, func(c *levels.Corpus) error {
		c.Embedder, c.Width, c.Changes = "given", 4, int64(n)
		return nil
	}))
	fill(t, places.Store, f.corpus, n)
	c := f.client(leader)
	within(t, "status", func() error {
		status, err := c.Status(t.Context(), f.corpus)
		if err == nil && (len(status.Corpora) != 1 || status.Corpora[0].Leaves != n || status.Corpora[0].Documents != n/leavesOfDocument) {
			err = fmt.Errorf("it says %+v", status.Corpora)
		}
		return err
	})
	req := api.DocumentsRequest{Corpus: f.corpus, Limit: 100}
	within(t, "a page of documents", func() error {
		page, err := c.Documents(t.Context(), req)
		if err == nil && (len(page.Documents) != 100 || page.Documents[99].Leaves != leavesOfDocument || page.NextCursor == "") {
			err = fmt.Errorf("it has %d documents, and then %q", len(page.Documents), page.NextCursor)
		}
		req.Cursor = page.NextCursor
		return err
	})
	within(t, "a page of documents with a prefix", func() error {
		page, err := c.Documents(t.Context(), api.DocumentsRequest{Corpus: f.corpus, Prefix: "document-00000", Limit: 50})
		if err == nil && len(page.Documents) != 50 {
			err = fmt.Errorf("it has %d documents", len(page.Documents))
		}
		return err
	})
}

// TestA27AtScaleEmbedded: the same of a home.
func TestA27AtScaleEmbedded(t *testing.T) {
	n := leavesAtScale(t)
	db, err := sqlite.Open(t.TempDir(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := db.Store()
	fill(t, s, "c", n)
	within(t, "count of leaves", func() error {
		got, err := s.Count(t.Context(), "c", store.Leaves().VisibleAt(0))
		if err == nil && got != n {
			err = fmt.Errorf("%d", got)
		}
		return err
	})
	within(t, "count of documents", func() error {
		got, err := s.CountDocuments(t.Context(), "c")
		if err == nil && got != n/leavesOfDocument {
			err = fmt.Errorf("%d", got)
		}
		return err
	})
	after := ""
	within(t, "a page of documents", func() error {
		page, err := s.DocumentsAfter(t.Context(), "c", "", after, 100)
		if err == nil && len(page) != 100 {
			err = fmt.Errorf("%d", len(page))
		}
		after = page[len(page)-1].ID
		return err
	})
}
