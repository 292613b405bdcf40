package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aerie-rag/aerie/internal/tree"
)

// A snapshot is the file nodes-<corpus>.tab: the columns of a [table] as they stand in memory, so that a process that is
// started for one query doesn't read every node. It is a cache like the sidecar, replaced as a whole and never
// changed. It is only believed in the run of the machine in which it was written, since nobody waits until it is on disk.
type snapshotHeader struct {
	Magic    [8]byte
	Boot     [16]byte
	Corpus   int64
	Stamp    int64
	Next     int64
	AllWords int64
	Rows     int64
	// Sum is the checksum of the columns, and Head that of the fields above, so that a file that was damaged isn't believed.
	Sum  uint64
	Head uint64
}

var snapshotMagic = [8]byte{'a', 'e', 'r', 'i', 'e', 't', 'b', '2'}

// checksum covers parts of a file: CRC-32C, which costs some milliseconds for a million rows.
func checksum(parts ...[]byte) uint64 {
	sum := uint32(0)
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return uint64(sum)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the checksum of a header's fields.
func (h snapshotHeader) head() uint64 {
	h.Head = 0
	page, err := binary.Append(nil, binary.NativeEndian, &h)
	if err != nil {
		panic("sqlite: a header always encodes: " + err.Error())
	}
	return checksum(page)
}

// snapshotAt is where the columns begin.
const snapshotAt = 128

// rowSize is what a row takes in all columns.
const rowSize = int64(unsafe.Sizeof(int64(0)) + unsafe.Sizeof(tree.ID{}) + 6*unsafe.Sizeof(int32(0)))

// mapping is memory that is a file until nobody can reach the value any more. Slices of it don't count as reaching it.
type mapping struct{ data []byte }

func mapFile(f *os.File, size int64) (*mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	m := &mapping{data}
	runtime.AddCleanup(m, func(data []byte) { unix.Munmap(data) }, data)
	return m, nil
}

func (st *Store) snapshotPath(c *collection) string {
	return filepath.Join(st.db.home, fmt.Sprintf("nodes-%d.tab", c.id))
}

// snapshot returns the table that was saved, if it is one of the corpus's present state, perhaps with fewer nodes; else
// an empty one.
func (st *Store) snapshot(s *session, c *collection) (*table, error) {
	t, err := st.mapSnapshot(c)
	if err != nil || len(t.nodes) == 0 {
		return t, err
	}
	// After a database was put back from a copy, other nodes may have got the numbers of those that the file knows.
	var node int64
	var id []byte
	ok, err := s.row("SELECT node, id FROM nodes WHERE node >= ? AND node < ? ORDER BY node DESC LIMIT 1", []any{c.firstNode, c.firstNode + t.next}, &node, &id)
	if err != nil {
		return nil, err
	}
	if last := len(t.nodes) - 1; !ok || node != t.nodes[last] || !bytes.Equal(id, t.ids[last][:]) {
		return emptyTable(c), nil
	}
	return t, nil
}

func emptyTable(c *collection) *table {
	return &table{first: c.firstNode, width: c.width, file: &sidecar{header: header{Width: int64(c.width)}}}
}

// mapSnapshot maps the file of a corpus; an empty table if there is none that can be believed.
func (st *Store) mapSnapshot(c *collection) (*table, error) {
	empty := emptyTable(c)
	f, err := os.Open(st.snapshotPath(c))
	if errors.Is(err, os.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var h snapshotHeader
	page := make([]byte, binary.Size(h))
	if _, err := f.ReadAt(page, 0); err != nil {
		return empty, nil // it is cut off
	}
	if _, err := binary.Decode(page, binary.NativeEndian, &h); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if h.Magic != snapshotMagic || h.Boot != bootID() || h.Corpus != c.id || h.Stamp != c.stamp || h.Next > c.next ||
		h.Rows < 1 || h.Rows > info.Size()/rowSize || snapshotAt+h.Rows*rowSize != info.Size() || h.Head != h.head() {
		return empty, nil
	}
	m, err := mapFile(f, info.Size())
	if err != nil {
		return nil, err
	}
	if checksum(m.data[snapshotAt:]) != h.Sum {
		return empty, nil
	}
	t := *empty
	t.mapping, t.next, t.stamp, t.allWords = m, h.Next, h.Stamp, h.AllWords
	rest := m.data[snapshotAt:]
	t.nodes, rest = column[int64](rest, h.Rows)
	t.ids, rest = column[tree.ID](rest, h.Rows)
	for _, c := range t.numbers() {
		*c, rest = column[int32](rest, h.Rows)
	}
	return &t, nil
}

// numbers are the columns of numbers, in the order of the file.
func (t *table) numbers() []*[]int32 {
	return []*[]int32{&t.levels, &t.documents, &t.metadata, &t.born, &t.died, &t.words}
}

// saveSnapshot replaces the file, unless another process is at it.
func (st *Store) saveSnapshot(c *collection, t *table) error {
	unlock, ok := st.lockSidecars()
	if !ok {
		return nil
	}
	defer unlock()
	h := snapshotHeader{
		Magic: snapshotMagic, Boot: bootID(), Corpus: c.id, Stamp: t.stamp, Next: t.next, AllWords: t.allWords, Rows: int64(len(t.nodes)),
	}
	columns := [][]byte{rawBytes(t.nodes), rawBytes(t.ids)}
	for _, c := range t.numbers() {
		columns = append(columns, rawBytes(*c))
	}
	h.Sum = checksum(columns...)
	h.Head = h.head()
	head, err := binary.Append(nil, binary.NativeEndian, &h)
	if err != nil {
		return err
	}
	parts := append([][]byte{append(head, make([]byte, snapshotAt-len(head))...)}, columns...)
	path := st.snapshotPath(c)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err = f.Write(p); err != nil {
			break
		}
	}
	if err == nil && h.Boot == ([16]byte{}) {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}

// column takes n values off the front of memory that is aligned for them.
func column[T int64 | int32 | tree.ID](b []byte, n int64) (values []T, rest []byte) {
	var v T
	size := n * int64(unsafe.Sizeof(v))
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n), b[size:]
}

// rawBytes returns the memory of a slice of numbers or ids.
func rawBytes[T float32 | uint64 | int64 | int32 | tree.ID](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}
