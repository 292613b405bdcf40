package coordinator

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappedFrom is the size in bytes from which a level's vectors go to a mapped file instead of the heap.
const mappedFrom = 64 << 20

// matrix is a row-major n x d block of float32. A large one lies in an unlinked temporary file, so that the
// operating system may write it out and the heap never holds it.
type matrix struct {
	x      []float32
	n, d   int
	mapped []byte
}

func newMatrix(n, d int, dir string) (*matrix, error) {
	m := &matrix{n: n, d: d}
	bytes := 4 * n * d
	if bytes < mappedFrom {
		m.x = make([]float32, n*d)
		return m, nil
	}
	f, err := os.CreateTemp(dir, "aerie-vectors-*")
	if err != nil {
		return nil, fmt.Errorf("coordinator: no room for the vectors of a level: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	// Reserved now, so that a full disk is an error here and not a fault in the middle of clustering.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(bytes)); err != nil {
		return nil, fmt.Errorf("coordinator: no room for %d MB of vectors in %s: %w", bytes>>20, os.TempDir(), err)
	}
	m.mapped, err = unix.Mmap(int(f.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("coordinator: mapping %d MB of vectors: %w", bytes>>20, err)
	}
	m.x = unsafe.Slice((*float32)(unsafe.Pointer(&m.mapped[0])), n*d)
	return m, nil
}

// row returns row i, to be written or read.
func (m *matrix) row(i int) []float32 { return m.x[i*m.d : (i+1)*m.d : (i+1)*m.d] }

// rows returns rows lo to hi as one block.
func (m *matrix) rows(lo, hi int) []float32 { return m.x[lo*m.d : hi*m.d : hi*m.d] }

func (m *matrix) close() {
	if m.mapped != nil {
		_ = unix.Munmap(m.mapped) // only fails on a wrong address
		m.mapped, m.x = nil, nil
	}
}
