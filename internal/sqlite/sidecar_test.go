package sqlite

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// smallLimits make a sidecar of a few nodes.
var smallLimits = limits{tail: 25, dead: 400}

// vectorHome is a home with one corpus for the tests of the sidecar.
type vectorHome struct {
	*testing.T
	dir string
	db  *DB
}

func newVectorHome(t *testing.T) *vectorHome {
	h := &vectorHome{T: t, dir: t.TempDir()}
	h.reopen()
	t.Cleanup(func() { h.close() })
	return h
}

func (h *vectorHome) close() {
	h.Helper()
	if h.db != nil {
		if err := h.db.Close(); err != nil {
			h.Fatal(err)
		}
		h.db = nil
	}
}

func (h *vectorHome) reopen() {
	h.Helper()
	h.close()
	db, err := Open(h.dir, Config{limits: smallLimits})
	if err != nil {
		h.Fatal(err)
	}
	h.db = db
}

func (h *vectorHome) path() string { return filepath.Join(h.dir, "vectors-1.f32") }

func (h *vectorHome) header() header {
	h.Helper()
	f, err := os.Open(h.path())
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	head, _, err := readHeader(f)
	if err != nil {
		h.Fatal(err)
	}
	return head
}

// patch writes bytes into the file.
func (h *vectorHome) patch(at int64, b []byte) {
	h.Helper()
	f, err := os.OpenFile(h.path(), os.O_RDWR, 0)
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		h.Fatal(err)
	}
}

// put adds leaves from..to-1 of a document.
func (h *vectorHome) put(document string, from, to int) {
	h.Helper()
	var nodes []tree.Node
	for i := from; i < to; i++ {
		nodes = append(nodes, crashLeaf(document, i))
	}
	if err := h.db.Store().Put(h.Context(), "crash", nodes); err != nil {
		h.Fatal(err)
	}
}

func (h *vectorHome) delete(document string, from, to int) {
	h.Helper()
	var ids []tree.ID
	for i := from; i < to; i++ {
		ids = append(ids, crashLeaf(document, i).ID)
	}
	if err := h.db.Store().Delete(h.Context(), "crash", ids); err != nil {
		h.Fatal(err)
	}
}

// check compares a search for every node with what the database holds, in a handle of its own and in the open one.
func (h *vectorHome) check(want int) {
	h.Helper()
	fresh, err := Open(h.dir, Config{limits: smallLimits})
	if err != nil {
		h.Fatal(err)
	}
	defer fresh.Close() // the last one that closes a home folds the log into the file
	for name, db := range map[string]*DB{"open handle": h.db, "new handle": fresh} {
		query := unit(append(make([]float32, 23), 1))
		hits, err := db.Store().Search(context.Background(), "crash", store.Query{Vector: query, Limit: 1 << 20, Filter: store.AnyLevel(), With: store.Fields{Vector: true}})
		if err != nil || len(hits) != want {
			h.Fatalf("%s: %d hits, want %d: %v", name, len(hits), want, err)
		}
		for _, hit := range hits {
			if want := float64(dot(unit(hit.Node.Vector), query)); hit.Score != want {
				h.Fatalf("%s: %s has score %v, its vector gives %v", name, hit.Node.ID, hit.Score, want)
			}
		}
	}
}

func TestSidecarFollowsTheDatabase(t *testing.T) {
	h := newVectorHome(t)
	h.put("a", 0, 20)
	h.check(20) // too few for a file
	if _, err := os.Stat(h.path()); !os.IsNotExist(err) {
		t.Errorf("a file for 20 vectors: %v", err)
	}
	h.put("a", 20, 200)
	h.check(200)
	if got := h.header(); got.Count != 200 || got.Width != 24 {
		t.Errorf("header %+v, want 200 slots of 24", got)
	}
	h.delete("a", 50, 60)
	h.put("b", 0, 1)
	h.check(191)
	h.put("b", 1, 100)
	h.check(290)
	if got := h.header(); got.Count < 290 {
		t.Errorf("%d slots for 290 nodes and 10 that are gone", got.Count)
	}
}

// A process that died while it wrote leaves slots that don't count.
func TestSidecarIgnoresWhatIsNotCounted(t *testing.T) {
	h := newVectorHome(t)
	h.put("a", 0, 120)
	h.check(120)
	head := h.header()
	h.patch(head.offset(head.Count), []byte("torn slots, neither whole nor counted, from a process that died"))
	h.check(120)
	h.put("a", 120, 300)
	h.check(300)
}

// After a restart of the machine only slots that were synced are believed.
func TestSidecarAfterARestart(t *testing.T) {
	h := newVectorHome(t)
	h.put("a", 0, 200)
	h.check(200)
	head := h.header()
	head.Boot, head.Synced = [16]byte{'b', 'e', 'f', 'o', 'r', 'e'}, 70
	f, err := os.OpenFile(h.path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeHeader(f, &head); err != nil {
		t.Fatal(err)
	}
	h.patch(head.offset(70), make([]byte, 50*24*4)) // what didn't reach the disk
	h.reopen()
	if got := h.header().Count; got != 70 {
		t.Errorf("%d slots are believed, want 70", got)
	}
	h.check(200)
	if got := h.header().Count; got != 200 {
		t.Errorf("%d slots after the next search, want 200", got)
	}
}

func TestSidecarThatIsNone(t *testing.T) {
	for name, spoil := range map[string]func(h *vectorHome){
		"empty":          func(h *vectorHome) { h.must(os.Truncate(h.path(), 0)) },
		"cut off":        func(h *vectorHome) { h.must(os.Truncate(h.path(), headerSize+1000)) },
		"other magic":    func(h *vectorHome) { h.patch(0, []byte("aerievc0")) },
		"another corpus": func(h *vectorHome) { h.patch(24, []byte{9}) },
		"another width":  func(h *vectorHome) { h.patch(32, []byte{25}) },
		"gone":           func(h *vectorHome) { h.must(os.Remove(h.path())) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newVectorHome(t)
			h.put("a", 0, 150)
			h.check(150)
			h.close()
			spoil(h)
			h.reopen()
			h.check(150)
			h.put("a", 150, 300)
			h.check(300)
			if got := h.header().Count; got != 300 {
				t.Errorf("%d slots in the new file, want 300", got)
			}
		})
	}
}

func (h *vectorHome) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// A database that is put back from a copy gives the same row numbers again, to other nodes.
func TestSidecarOfADatabasePutBack(t *testing.T) {
	for name, after := range map[string]int{"fewer": 30, "as many": 100, "more": 250} {
		t.Run(name, func(t *testing.T) {
			h := newVectorHome(t)
			h.put("a", 0, 100)
			h.check(100)
			h.close()
			backup := filepath.Join(t.TempDir(), "copy")
			h.must(copyFile(filepath.Join(h.dir, FileName), backup))
			h.reopen()
			h.put("b", 0, 100)
			h.check(200)
			h.close()
			h.must(copyFile(backup, filepath.Join(h.dir, FileName)))
			h.reopen()
			h.put("c", 0, after)
			h.check(100 + after)
		})
	}
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	_, err = io.Copy(dst, src)
	return err
}

// When most slots are dead the file is written anew, while searches that began before go on with the old one.
func TestSidecarIsCompacted(t *testing.T) {
	h := newVectorHome(t)
	h.put("a", 0, 1200)
	h.check(1200)
	h.delete("a", 0, 700)
	h.put("b", 0, 1)
	h.check(501)
	head := h.header()
	if head.Compacted != 501 || head.Count != 501 {
		t.Errorf("%d slots of which %d are packed, want 501 of both", head.Count, head.Compacted)
	}
	h.put("b", 1, 100)
	h.check(600)
	h.delete("a", 800, 801)
	h.check(599)
	if got := h.header(); got.Compacted != 501 || got.Count != 600 {
		t.Errorf("%d slots of which %d are packed, want 600 and 501", got.Count, got.Compacted)
	}
}

func TestSidecarGoesWithItsCorpus(t *testing.T) {
	h := newVectorHome(t)
	h.put("a", 0, 150)
	h.check(150)
	h.must(h.db.Store().Drop(t.Context(), "crash"))
	if _, err := os.Stat(h.path()); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	stray := filepath.Join(h.dir, "vectors-77.f32") // of a process that died while it dropped a corpus
	h.must(os.WriteFile(stray, []byte("x"), 0o600))
	h.put("a", 0, 150)
	h.check(150)
	h.reopen()
	if _, err := os.Stat(stray); !os.IsNotExist(err) {
		t.Errorf("the stray file is still there: %v", err)
	}
	h.check(150)
}

// A search sees what was written before it began although nobody may extend the file.
func TestSearchWithoutTheLock(t *testing.T) {
	h := newVectorHome(t)
	unlock, ok := h.db.store.lockSidecars()
	if !ok {
		t.Fatal("the lock isn't free")
	}
	h.put("a", 0, 300)
	h.check(300)
	if _, err := os.Stat(h.path()); !os.IsNotExist(err) {
		t.Errorf("a file although the lock was taken: %v", err)
	}
	unlock()
	h.put("a", 300, 301)
	h.check(301)
	if got := h.header().Count; got != 301 {
		t.Errorf("%d slots, want 301", got)
	}
}

func TestTopAgainstSorting(t *testing.T) {
	var ids []tree.ID
	for i := range 200 {
		ids = append(ids, tree.LeafID("c", "d", i, "text"))
	}
	for _, limit := range []int{1, 2, 7, 199, 200, 500} {
		best := newTop(ids, limit)
		for i := range ids {
			best.add(scored{i, float64(i % 5)})
		}
		got := best.sorted()
		if len(got) != min(limit, len(ids)) {
			t.Fatalf("limit %d: %d rows", limit, len(got))
		}
		for i, s := range got {
			if i > 0 && !best.worse(s, got[i-1]) {
				t.Errorf("limit %d: row %d isn't after the one before it", limit, i)
			}
		}
		for i := range ids {
			last := got[len(got)-1]
			if s := (scored{i, float64(i % 5)}); best.worse(last, s) {
				found := false
				for _, g := range got {
					found = found || g.row == i
				}
				if !found {
					t.Errorf("limit %d: row %d is better than the last and is missing", limit, i)
				}
			}
		}
	}
}

// dot is a row's score by the kernel's twin in Go.
func dot(a, b []float32) float32 {
	var sum [1]float32
	kernel.Portable().Products(sum[:], a, b)
	return sum[0]
}
