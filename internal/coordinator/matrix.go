package coordinator

import (
	"bufio"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappedFrom is the size in bytes from which a level's vectors go to a mapped file instead of the heap.
const mappedFrom = 64 << 20

// matrix is a row-major n x d block of float32, filled row by row, then sealed and read. A large one lies in an
// unlinked temporary file, so that the operating system may take its memory back and the heap never holds it. It is
// written and not mapped while it grows: a full disk is then an error and not a fault.
type matrix struct {
	d int
	n int

	heap   []float32
	file   *os.File
	out    *bufio.Writer
	mapped []byte
}

// newMatrix returns an empty matrix for about n rows.
func newMatrix(n, d int, dir string) (*matrix, error) {
	m := &matrix{d: d}
	if 4*n*d < mappedFrom {
		m.heap = make([]float32, 0, n*d)
		return m, nil
	}
	f, err := os.CreateTemp(dir, "aerie-vectors-*")
	if err != nil {
		return nil, fmt.Errorf("coordinator: no room for the vectors of a level: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	m.file, m.out = f, bufio.NewWriterSize(f, 1<<20)
	return m, nil
}

// add appends a row of d values.
func (m *matrix) add(row []float32) error {
	m.n++
	if m.file == nil {
		m.heap = append(m.heap, row...)
		return nil
	}
	// The bytes as they lie in memory: the file never leaves this process.
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(row))), 4*len(row))
	if _, err := m.out.Write(bytes); err != nil {
		return fmt.Errorf("coordinator: no room for %d MB of vectors: %w", 4*m.n*m.d>>20, err)
	}
	return nil
}

// seal ends the filling; rows may be read from then on.
func (m *matrix) seal() error {
	if m.file == nil || m.n == 0 {
		return nil
	}
	if err := m.out.Flush(); err != nil {
		return fmt.Errorf("coordinator: no room for %d MB of vectors: %w", 4*m.n*m.d>>20, err)
	}
	mapped, err := unix.Mmap(int(m.file.Fd()), 0, 4*m.n*m.d, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("coordinator: mapping %d MB of vectors: %w", 4*m.n*m.d>>20, err)
	}
	m.mapped = mapped
	return nil
}

// rows returns rows lo to hi as one block, to be read only.
func (m *matrix) rows(lo, hi int) []float32 {
	x := m.heap
	if m.mapped != nil {
		x = unsafe.Slice((*float32)(unsafe.Pointer(&m.mapped[0])), m.n*m.d)
	}
	return x[lo*m.d : hi*m.d : hi*m.d]
}

func (m *matrix) close() {
	if m.mapped != nil {
		_ = unix.Munmap(m.mapped) // only fails on a wrong address
	}
	if m.file != nil {
		_ = m.file.Close() // read only from here on, and unlinked
	}
	*m = matrix{}
}
