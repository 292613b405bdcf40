package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/gofrs/flock"
)

// A sidecar is the file vectors-<corpus>.f32: the corpus's vectors, scaled to unit length, as a flat array that is
// mapped into memory. It is a cache of the vectors table, for any process to extend, replace or delete:
//
//	header     one page, see header
//	sequences  uint64 × compacted: which nodes the first slots hold, ascending
//	slots      float32 × width each: those of sequences, then the nodes from base on, one after the other, zeros
//	           where a node is gone
//
// A slot is never changed once it is counted, and count is written after the slots. A process that dies between the
// two leaves slots that don't count. Slots reach the disk in any order when the power fails: so only those up to
// synced are believed after a restart of the machine. Whoever appends holds the lock; readers need none. A file with
// too many dead slots is replaced under its name, which readers of the old one don't notice.
//
// All numbers are in the order of bytes of the machine, since the file never leaves it.
type sidecar struct {
	header
	mapping   *mapping
	slots     []float32 // in the mapping
	sequences []uint64  // in the mapping
}

// header is the first page of a sidecar.
type header struct {
	Magic     [8]byte
	Boot      [16]byte // the run of the machine in which count was written
	Corpus    int64
	Width     int64
	Compacted int64 // slots with a sequence of their own
	Base      int64 // sequence of the slot after these
	Synced    int64 // slots that are on disk
	Count     int64 // slots
}

const headerSize = 4096

// sidecarMagic holds the format's number. Another format needs another.
var sidecarMagic = [8]byte{'a', 'e', 'r', 'i', 'e', 'v', 'c', '1'}

// next is the sequence of the first node that isn't in the file.
func (h *header) next() int64 { return h.Base + h.Count - h.Compacted }

// slotsAt is where slots begin, on a multiple of 64 bytes.
func (h *header) slotsAt() int64 { return headerSize + (8*h.Compacted+63)/64*64 }

func (h *header) offset(slot int64) int64 { return h.slotsAt() + slot*h.Width*4 }

// settle drops slots that may not have survived a restart of the machine.
func (h *header) settle() {
	if h.Boot != bootID() {
		h.Boot, h.Count = bootID(), h.Synced
	}
}

// valid reports whether the header is one of ours for a corpus, in a file of a size.
func (h *header) valid(c *collection, size int64) bool {
	return h.Magic == sidecarMagic && h.Corpus == c.id && h.Width == int64(c.width) &&
		h.Compacted >= 0 && h.Count >= h.Compacted && h.Count < math.MaxInt32 && h.Base >= h.Compacted && h.Base <= maxSequence && h.offset(h.Count) <= size
}

// maxSequence is more than the nodes of a corpus that there can be; see schema.
const maxSequence = 1 << 40

// ascend reports whether sequences are as they were written: each larger than the one before, and below a bound.
func ascend(sequences []uint64, below int64) bool {
	next := uint64(0)
	for _, s := range sequences {
		if s < next {
			return false
		}
		next = s + 1
	}
	return next <= uint64(below)
}

func readHeader(f *os.File) (header, int64, error) {
	var h header
	page := make([]byte, binary.Size(h))
	if _, err := f.ReadAt(page, 0); err != nil {
		return h, 0, err
	}
	if _, err := binary.Decode(page, binary.NativeEndian, &h); err != nil {
		return h, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return h, 0, err
	}
	h.settle()
	return h, info.Size(), nil
}

func writeHeader(f *os.File, h *header) error {
	page, err := binary.Append(nil, binary.NativeEndian, h)
	if err == nil {
		_, err = f.WriteAt(page, 0)
	}
	return err
}

// vectors returns what n slots hold.
func (m *sidecar) vectors(slot int64, n int) []float32 {
	from, to := slot*m.Width, (slot+int64(n))*m.Width
	return m.slots[from:to:to]
}

func (st *Store) sidecarPath(c *collection) string {
	return filepath.Join(st.db.home, fmt.Sprintf("vectors-%d.f32", c.id))
}

// mapSidecar maps what the file of a corpus holds now; an empty sidecar if there is none that can be used. The mapping
// ends when nobody can reach it any more, so a search that is under way keeps the one it began with.
func (st *Store) mapSidecar(c *collection) (*sidecar, error) {
	empty := &sidecar{header: header{Width: int64(c.width)}}
	f, err := os.Open(st.sidecarPath(c))
	if errors.Is(err, os.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, size, err := readHeader(f)
	if err != nil || !h.valid(c, size) || h.Count == 0 {
		return empty, nil // a file that was just begun, or is no sidecar
	}
	memory, err := mapFile(f, h.offset(h.Count))
	if err != nil {
		return nil, err
	}
	m := &sidecar{header: h, mapping: memory}
	if h.Compacted > 0 {
		m.sequences = unsafe.Slice((*uint64)(unsafe.Pointer(&memory.data[headerSize])), h.Compacted)
		if !ascend(m.sequences, h.Base) {
			return empty, nil // it is damaged, and made again
		}
	}
	m.slots = unsafe.Slice((*float32)(unsafe.Pointer(&memory.data[h.slotsAt()])), h.Count*h.Width)
	return m, nil
}

// agrees reports whether the file holds for the newest of its nodes what the database holds. It doesn't when the
// database was put back from a copy and has given the same row numbers to other nodes since. A node that the session
// still sees may be gone from the file, which went on.
func (m *sidecar) agrees(s *session, c *collection) (bool, error) {
	var node int64
	var vector []byte
	ok, err := s.row("SELECT node, vector FROM vectors WHERE node >= ? AND node < ? ORDER BY node DESC LIMIT 1",
		[]any{c.firstNode, c.firstNode + m.next()}, &node, &vector)
	if err != nil || !ok {
		return err == nil, err
	}
	slot, ok := m.slot(node - c.firstNode)
	if !ok {
		return true, nil
	}
	kept := slices.Clone(m.vectors(slot, 1))
	runtime.KeepAlive(m)
	return !slices.ContainsFunc(kept, func(x float32) bool { return x != 0 }) || len(vector) == 4*c.width && slices.Equal(kept, unit(decodeVector(vector))), nil
}

// slot finds the slot of a node by its sequence number.
func (m *sidecar) slot(sequence int64) (int64, bool) {
	if sequence >= m.Base {
		return m.Compacted + sequence - m.Base, sequence < m.next()
	}
	lo, hi := int64(0), m.Compacted
	for lo < hi {
		mid := (lo + hi) / 2
		if int64(m.sequences[mid]) < sequence {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < m.Compacted && int64(m.sequences[lo]) == sequence
}

// lockSidecars takes the lock that whoever changes a sidecar holds. It doesn't wait: a sidecar that isn't extended now
// is extended later.
func (st *Store) lockSidecars() (unlock func(), ok bool) {
	lock := flock.New(filepath.Join(st.db.home, "vectors.lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		return nil, false
	}
	return func() { lock.Close() }, true
}

// extendSidecar appends the nodes that the file lacks, as of the session's transaction, and begins the file if there
// is none. It reports whether it could; another process may be at it.
func (st *Store) extendSidecar(s *session, c *collection) (bool, error) {
	unlock, ok := st.lockSidecars()
	if !ok {
		return false, nil
	}
	defer unlock()
	m, err := st.mapSidecar(c)
	if err != nil {
		return false, err
	}
	good, err := m.agrees(s, c)
	if err != nil {
		return false, err
	}
	if !good || m.Count == 0 {
		m = &sidecar{header: header{Magic: sidecarMagic, Boot: bootID(), Corpus: c.id, Width: int64(c.width)}}
		if err := os.Remove(st.sidecarPath(c)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
	}
	f, err := os.OpenFile(st.sidecarPath(c), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := m.header
	w := slotWriter{file: f, header: &h}
	first := h.next()
	if first >= c.next {
		return true, nil
	}
	err = s.rows("SELECT node, vector FROM vectors WHERE node >= ? AND node < ? ORDER BY node", []any{c.firstNode + first, c.beyondNodes},
		func(scan func(...any) error) error {
			var node int64
			var vector []byte
			if err := scan(&node, &vector); err != nil {
				return err
			}
			v, err := c.slot(vector)
			if err != nil {
				return err
			}
			return w.add(node-c.firstNode-first, v)
		})
	if err != nil {
		return false, err
	}
	return true, w.end(c.next - first)
}

// rebuildSidecar replaces the file by one without dead slots.
func (st *Store) rebuildSidecar(s *session, c *collection) (bool, error) {
	unlock, ok := st.lockSidecars()
	if !ok {
		return false, nil
	}
	defer unlock()
	var sequences []uint64
	err := s.rows("SELECT node FROM vectors WHERE node >= ? AND node < ? ORDER BY node", []any{c.firstNode, c.beyondNodes},
		func(scan func(...any) error) error {
			var node int64
			err := scan(&node)
			sequences = append(sequences, uint64(node-c.firstNode))
			return err
		})
	if err != nil {
		return false, err
	}
	path := st.sidecarPath(c)
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	n := int64(len(sequences))
	h := header{Magic: sidecarMagic, Boot: bootID(), Corpus: c.id, Width: int64(c.width), Compacted: n, Base: c.next}
	if _, err := f.WriteAt(rawBytes(sequences), headerSize); err != nil {
		return false, err
	}
	w := slotWriter{file: f, header: &h}
	err = s.rows("SELECT vector FROM vectors WHERE node >= ? AND node < ? ORDER BY node", []any{c.firstNode, c.beyondNodes},
		func(scan func(...any) error) error {
			var vector []byte
			if err := scan(&vector); err != nil {
				return err
			}
			v, err := c.slot(vector)
			if err != nil {
				return err
			}
			return w.add(w.added, v)
		})
	if err == nil {
		err = w.end(n)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(path+".new"))
	}
	return true, os.Rename(path+".new", path)
}

// slotWriter appends slots to a file and then counts them.
type slotWriter struct {
	file    *os.File
	header  *header
	added   int64 // slots, counted from header.Count
	written int64
	block   []byte
}

// add appends a vector as slot number at of those to be added, with zeros for those left out before it.
func (w *slotWriter) add(at int64, vector []float32) error {
	for ; w.added < at; w.added++ {
		w.block = append(w.block, make([]byte, 4*w.header.Width)...)
		if err := w.flush(1 << 20); err != nil {
			return err
		}
	}
	w.block = append(w.block, rawBytes(vector)...)
	w.added++
	return w.flush(1 << 20)
}

func (w *slotWriter) flush(size int) error {
	if len(w.block) < size {
		return nil
	}
	if _, err := w.file.WriteAt(w.block, w.header.offset(w.header.Count)+w.written); err != nil {
		return err
	}
	w.written += int64(len(w.block))
	w.block = w.block[:0]
	return nil
}

// end fills up to n slots and counts them. Every syncEvery bytes they are brought to disk, so that a restart of the
// machine costs little.
func (w *slotWriter) end(n int64) error {
	for w.added < n {
		if err := w.add(w.added, make([]float32, w.header.Width)); err != nil {
			return err
		}
	}
	if err := w.flush(1); err != nil {
		return err
	}
	const syncEvery = 64 << 20
	h := w.header
	h.Count += w.added
	if bootID() == ([16]byte{}) || (h.Count-h.Synced)*h.Width*4 >= syncEvery {
		if err := w.file.Sync(); err != nil {
			return err
		}
		h.Synced = h.Count
	}
	return writeHeader(w.file, h)
}

// removeStrays deletes the sidecars and snapshots of corpora that are gone, should a process have died between the two steps of a
// drop. The folder is read before the database, since a new corpus is in the database before it has a file.
func (st *Store) removeStrays() error {
	var paths []string
	for _, pattern := range []string{"vectors-*.f32*", "nodes-*.tab*"} {
		found, err := filepath.Glob(filepath.Join(st.db.home, pattern))
		if err != nil {
			return err
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil
	}
	known := map[string]bool{}
	err := st.db.writer.session.rows("SELECT id FROM collections", nil, func(scan func(...any) error) error {
		var c collection
		err := scan(&c.id)
		known[st.sidecarPath(&c)], known[st.snapshotPath(&c)] = true, true
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !known[strings.TrimSuffix(path, ".new")] {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// bootID names this run of the machine; zeros where the system doesn't say, and then every append is synced.
func bootID() [16]byte {
	var id [16]byte
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		copy(id[:], bytes.ReplaceAll(b, []byte("-"), nil))
	}
	return id
}
