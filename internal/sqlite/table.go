package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// table holds of each node of one corpus what filters and ties need, in the order of row numbers, and where its
// vector is. A table never changes; the next state of the corpus gets another one, which may share memory with it.
type table struct {
	next, stamp int64 // of the collection when it was read
	first       int64 // row number of sequence 0

	nodes     []int64 // row numbers, ascending
	ids       []tree.ID
	levels    []int32
	documents []int32
	metadata  []int32 // 0 for none
	born      []int32
	died      []int32
	words     []int32 // in the keyword index
	allWords  int64   // the sum of words

	mapping *mapping // where the columns are, if they come from a snapshot
	saved   int      // rows of the snapshot

	width    int
	attached bool // what follows is set
	file     *sidecar
	packed   []int32   // slots of the first rows, those before file.Base; -1 for one that is gone
	inFile   int       // rows before this one are in the file
	tail     []float32 // vectors of the others
}

// limits say when the sidecar is worth the work.
type limits struct {
	// tail is how many vectors a search keeps in memory before it moves them to the file. Put moves them four times as
	// late, and so many nodes at least are worth a snapshot.
	tail int
	// dead is how many dead slots a file may have in any case; more must be fewer than the others.
	dead int
}

var defaultLimits = limits{tail: 256, dead: 4096}

// table returns a corpus's table as of the session's transaction, which must not have read anything yet: since
// the lock is held when its state is fixed, a table that is kept is never newer than the transaction. It is nil
// if the corpus doesn't exist.
func (st *Store) table(s *session, corpus string) (*table, *collection, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	c, err := s.collection(corpus)
	if err != nil || c == nil {
		return nil, nil, err
	}
	old := st.tables[c.id]
	if old != nil && old.next == c.next && old.stamp == c.stamp {
		return old, c, nil
	}
	if old == nil || old.stamp != c.stamp {
		if old, err = st.snapshot(s, c); err != nil {
			return nil, nil, err
		}
		old.saved = len(old.nodes)
	}
	t, err := old.extended(s, c)
	if err != nil {
		return nil, nil, err
	}
	if err := st.attach(s, c, t, old); err != nil {
		return nil, nil, err
	}
	if n := len(t.nodes); n-t.saved >= max(4*st.limits.tail, n/8) {
		t.saved = n
		// A cache that can't be written, on a full disk, say, costs time and not the answer.
		if st.saveSnapshot(c, t) == nil {
			if t, err = st.mapped(s, c, t); err != nil {
				return nil, nil, err
			}
		}
	}
	st.tables[c.id] = t
	return t, c, nil
}

// mapped returns the table with the columns of its snapshot, which the system can drop and read again, instead of those in
// memory; the table itself if there is no such snapshot.
func (st *Store) mapped(s *session, c *collection, t *table) (*table, error) {
	m, err := st.snapshot(s, c)
	if err != nil || m.next != t.next || len(m.nodes) != len(t.nodes) {
		return t, err
	}
	m.saved = t.saved
	m.attached, m.file, m.packed, m.inFile, m.tail = t.attached, t.file, t.packed, t.inFile, t.tail
	return m, nil
}

// extended returns the table with the nodes that were added since it was read.
func (t *table) extended(s *session, c *collection) (*table, error) {
	u := *t
	u.next, u.stamp = c.next, c.stamp
	if err := u.grow(s, c, t.next); err != nil {
		return nil, err
	}
	err := s.rows("SELECT node, id, level, document, metadata, born, died, words FROM nodes WHERE node >= ? AND node < ? ORDER BY node",
		[]any{t.first + t.next, c.beyondNodes}, func(scan func(...any) error) error {
			var node int64
			var id sql.RawBytes
			var level, document, born, died, words int32
			var metadata sql.Null[int32]
			if err := scan(&node, &id, &level, &document, &metadata, &born, &died, &words); err != nil {
				return err
			}
			u.nodes = append(u.nodes, node)
			if len(id) != len(tree.ID{}) {
				return damagedNode(node, "an id of %d bytes", len(id))
			}
			u.ids = append(u.ids, tree.ID(id))
			u.levels = append(u.levels, level)
			u.documents = append(u.documents, document)
			u.metadata = append(u.metadata, metadata.V)
			u.born = append(u.born, born)
			u.died = append(u.died, died)
			u.words = append(u.words, words)
			u.allWords += int64(words)
			return nil
		})
	return &u, err
}

// grow makes room for the nodes from a sequence number on. Where they are many, growing by and by would take twice the memory.
func (t *table) grow(s *session, c *collection, from int64) error {
	if c.next-from < 10_000 {
		return nil
	}
	n := 0
	if _, err := s.row("SELECT count(*) FROM nodes NOT INDEXED WHERE node >= ? AND node < ?", []any{t.first + from, c.beyondNodes}, &n); err != nil {
		return err
	}
	t.nodes, t.ids = slices.Grow(t.nodes, n), slices.Grow(t.ids, n)
	for _, numbers := range t.numbers() {
		*numbers = slices.Grow(*numbers, n)
	}
	return nil
}

// attach finds the vectors of a table that was extended from old: in the file, which is extended or replaced where
// that is worth it, or in the database.
func (st *Store) attach(s *session, c *collection, t, old *table) error {
	file, err := st.sidecar(s, c, t)
	if err != nil {
		return err
	}
	t.attached = true
	if old.attached && file.Boot == old.file.Boot && file.Base == old.file.Base && file.Count == old.file.Count {
		// The same file, as far as rows go: the tail is what it was, and more.
		t.file = old.file
		return t.readTail(s, c, old.nodes)
	}
	t.file = file
	t.inFile, _ = slices.BinarySearch(t.nodes, t.first+file.next())
	packed, _ := slices.BinarySearch(t.nodes, t.first+file.Base)
	t.packed = make([]int32, packed)
	for i := range t.packed {
		t.packed[i] = -1
		if slot, ok := file.slot(t.nodes[i] - t.first); ok {
			t.packed[i] = int32(slot)
		}
	}
	t.tail = nil
	return t.readTail(s, c, t.nodes[:t.inFile])
}

// sidecar returns the mapped file of a corpus, brought up to date for a table.
func (st *Store) sidecar(s *session, c *collection, t *table) (*sidecar, error) {
	file, err := st.mapSidecar(c)
	if err != nil {
		return nil, err
	}
	good, err := file.agrees(s, c)
	if err != nil {
		return nil, err
	}
	if !good {
		file = &sidecar{header: header{Width: int64(c.width)}}
	}
	inFile, _ := slices.BinarySearch(t.nodes, t.first+file.next())
	dead := int(file.Count) - inFile
	update := st.extendSidecar
	switch {
	case good && dead > st.limits.dead && dead > inFile:
		update = st.rebuildSidecar
	case good && len(t.nodes)-inFile < st.limits.tail:
		return file, nil
	}
	if updated, err := update(s, c); err != nil || !updated {
		return file, nil // as above: what the file lacks is read from the database
	}
	return st.mapSidecar(c)
}

// readTail appends to the tail the vectors of the nodes that follow those known.
func (t *table) readTail(s *session, c *collection, known []int64) error {
	if len(known) == len(t.nodes) {
		return nil
	}
	return s.rows("SELECT vector FROM vectors WHERE node >= ? AND node < ? ORDER BY node", []any{t.nodes[len(known)], c.beyondNodes},
		func(scan func(...any) error) error {
			var vector sql.RawBytes
			if err := scan(&vector); err != nil {
				return err
			}
			v, err := c.slot(vector)
			t.tail = append(t.tail, v...)
			return err
		})
}

// slot returns a vector of the corpus as searches compare it.
func (c *collection) slot(stored []byte) ([]float32, error) {
	if len(stored) != 4*c.width {
		return nil, fmt.Errorf("the database is damaged; restore it from a copy: a vector of %d bytes, not %d", len(stored), 4*c.width)
	}
	return unit(decodeVector(stored)), nil
}

// damagedNode is the error of a row that can't be right.
func damagedNode(node int64, format string, args ...any) error {
	return fmt.Errorf("the database is damaged; restore it from a copy: row %d has "+format, append([]any{node}, args...)...)
}

// run returns the vectors of the rows from lo on, at most up to hi, that lie one after the other, and how many they are: 0
// if the vector of row lo is gone.
func (t *table) run(lo, hi int) (vectors []float32, n int) {
	if lo >= t.inFile {
		return t.tail[(lo-t.inFile)*t.width : (hi-t.inFile)*t.width], hi - lo
	}
	first := t.slot(lo)
	if first < 0 {
		return nil, 0
	}
	hi = min(hi, t.inFile)
	if t.nodes[hi-1]-t.nodes[lo] == int64(hi-1-lo) && lo >= len(t.packed) {
		n = hi - lo // the common case: no node between them is gone
	}
	for n = max(n, 1); lo+n < hi && t.slot(lo+n) == first+int64(n); n++ {
	}
	return t.file.vectors(first, n), n
}

// slot returns the slot of a row that is in the file; -1 if it is gone.
func (t *table) slot(i int) int64 {
	if i < len(t.packed) {
		return int64(t.packed[i])
	}
	return t.file.Compacted + t.nodes[i] - t.first - t.file.Base
}

// forget drops what is kept of a corpus that is gone.
func (st *Store) forget(c *collection) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.tables, c.id)
	for _, path := range []string{st.sidecarPath(c), st.snapshotPath(c)} {
		if err := removeFile(path); err != nil {
			return err
		}
	}
	return nil
}

// grown moves new vectors to the sidecar now and then, so that the first search after an ingest needn't.
func (st *Store) grown(ctx context.Context, c *collection) error {
	st.mu.Lock()
	due := c.next-st.moved[c.id] >= int64(4*st.limits.tail)
	if due {
		st.moved[c.id] = c.next
	}
	st.mu.Unlock()
	if !due {
		return nil
	}
	return st.db.read(ctx, func(s *session) error {
		_, err := st.extendSidecar(s, c)
		return err
	})
}

// keep returns a function that reports whether row i passes the filter and may be found at all.
func (t *table) keep(filter store.Filter, sel *selection) func(i int) bool {
	minLevel, maxLevel := int32(filter.MinLevel), int32(filter.MaxLevel)
	return func(i int) bool {
		if t.died[i] == tree.Deleted || t.levels[i] < minLevel || maxLevel >= 0 && t.levels[i] > maxLevel {
			return false
		}
		if filter.At != nil && (int(t.born[i]) > *filter.At || int(t.died[i]) <= *filter.At) {
			return false
		}
		if sel.documents != nil && !sel.documents[int64(t.documents[i])] {
			return false
		}
		if sel.leaves && t.levels[i] != 0 {
			return false
		}
		return sel.metadata == nil || t.levels[i] == 0 && sel.metadata[int64(t.metadata[i])]
	}
}

// index returns the place of a row number at or after from; if it isn't there, the place of the next, and false. It looks
// nearby first, since postings ascend.
func (t *table) index(node int64, from int) (int, bool) {
	lo, step := from, 1
	for lo+step < len(t.nodes) && t.nodes[lo+step] < node {
		lo += step
		step *= 2
	}
	hi := min(lo+step+1, len(t.nodes))
	i, ok := slices.BinarySearch(t.nodes[lo:hi], node)
	return lo + i, ok
}
