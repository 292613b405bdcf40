package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// snapshotRows is how many nodes a new handle takes from the snapshot.
func (h *vectorHome) snapshotRows() int {
	h.Helper()
	fresh, err := Open(h.dir, Config{limits: smallLimits})
	if err != nil {
		h.Fatal(err)
	}
	defer fresh.Close()
	n := 0
	err = fresh.read(h.Context(), func(s *session) error {
		c, err := s.collection("crash")
		if err != nil {
			return err
		}
		saved, err := fresh.store.snapshot(s, c)
		if err == nil {
			n = len(saved.nodes)
		}
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return n
}

// TestSnapshot: a process that starts finds the columns that an earlier one saved, and only if they are those of the
// corpus's present state.
func TestSnapshot(t *testing.T) {
	h := newVectorHome(t)
	h.put("a", 0, 90)
	h.check(90)
	if n := h.snapshotRows(); n != 0 {
		t.Errorf("a snapshot of %d nodes, although 90 are too few", n)
	}
	h.put("a", 90, 300)
	h.check(300)
	if n := h.snapshotRows(); n != 300 {
		t.Errorf("a snapshot of %d nodes, want 300", n)
	}
	if t := h.db.store.tables[1]; t.mapping == nil || len(t.nodes) != 300 || t.saved != 300 {
		h.Errorf("the process that saved %d nodes keeps them in memory too", len(t.nodes))
	}
	h.put("a", 300, 310) // the snapshot is still good, with ten nodes to add
	h.check(310)
	if n := h.snapshotRows(); n != 300 {
		t.Errorf("a snapshot of %d nodes after ten more, want 300", n)
	}
	h.must(h.db.Store().SetLife(t.Context(), "crash", []tree.ID{crashLeaf("a", 5).ID}, 0, tree.Deleted))
	if n := h.snapshotRows(); n != 0 {
		t.Errorf("a snapshot of %d nodes is believed after one has died", n)
	}
	h.check(309)
	if n := h.snapshotRows(); n != 310 {
		t.Errorf("a new snapshot of %d nodes, want 310", n)
	}
}

func TestSnapshotThatIsNone(t *testing.T) {
	h := newVectorHome(t)
	path := filepath.Join(h.dir, "nodes-1.tab")
	h.put("a", 0, 300)
	h.check(300)
	whole, err := os.ReadFile(path)
	h.must(err)
	for name, b := range map[string][]byte{
		"empty": {}, "a header": whole[:snapshotAt], "cut off": whole[:len(whole)-1], "longer": append(whole[:len(whole):len(whole)], 0),
		"another magic": append([]byte("x"), whole[1:]...), "another boot": append(append(whole[:8:8], "0000000000000000"...), whole[24:]...),
	} {
		h.must(os.WriteFile(path+".new", b, 0o600))
		h.must(os.Rename(path+".new", path)) // in place it would change what the open handle has mapped
		if n := h.snapshotRows(); n != 0 {
			t.Errorf("%s: a snapshot of %d nodes", name, n)
		}
		h.check(300)
	}
	h.must(h.db.Store().Drop(t.Context(), "crash"))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file outlives its corpus: %v", err)
	}
}

// Caches that can't be written cost time, not answers.
func TestSearchWhenCachesCannotBeWritten(t *testing.T) {
	h := newVectorHome(t)
	for _, name := range []string{"vectors-1.f32", "nodes-1.tab.new"} { // folders stand where the files should
		h.must(os.Mkdir(filepath.Join(h.dir, name), 0o700))
	}
	h.put("a", 0, 300)
	h.db.store.limits = smallLimits
	hits, err := h.db.Store().Search(t.Context(), "crash", store.Query{Vector: crashLeaf("a", 7).Vector, Limit: 1, Filter: store.AnyLevel()})
	if err != nil || len(hits) != 1 || hits[0].Node.ID != crashLeaf("a", 7).ID {
		t.Errorf("%v, %v; want leaf 7", hits, err)
	}
}
