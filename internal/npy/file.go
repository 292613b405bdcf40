package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrFormat says that a file is not an array that can be used here. Every error about a file's content is one.
var ErrFormat = errors.New("npy: bad file")

// formatError is an ErrFormat with a sentence of its own.
type formatError string

func (e formatError) Error() string        { return string(e) }
func (e formatError) Is(target error) bool { return target == ErrFormat }

func refuse(path, format string, args ...any) error {
	return formatError("npy: " + path + " " + fmt.Sprintf(format, args...))
}

// File is a mapped array of vectors, one a row. Its methods may be called from many goroutines, but not after Close.
//
// The mapping is read only. A file that another process shortens while it is mapped ends this one with a bus error, as
// with every mapped file.
type File struct {
	path  string
	rows  int
	width int
	size  int // bytes of an element: 2, 4 or 8
	data  []byte
	mem   []byte // the whole mapping
}

// Open maps a file of vectors: two dimensions, at least one column, elements little-endian float16, float32 or
// float64. A file with no rows is fine. Errors about its content are ErrFormat.
func Open(path string) (*File, error) {
	mem, h, err := load(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, mem: mem, data: mem[h.offset:]}
	if err := f.shape(h); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) shape(h header) error {
	switch h.descr {
	case "<f2":
		f.size = 2
	case "<f4":
		f.size = 4
	case "<f8":
		f.size = 8
	default:
		return refuse(f.path, "holds %s, but vectors are little-endian float16, float32 or float64; write it with numpy.save(file, array.astype(\"<f4\"))", describe(h.descr))
	}
	if len(h.shape) != 2 {
		return refuse(f.path, "has %d dimensions, but vectors need two, one row a vector; reshape it to (rows, width)", len(h.shape))
	}
	if h.fortran {
		return refuse(f.path, "is stored column by column; write it with numpy.save(file, numpy.ascontiguousarray(array))")
	}
	f.rows, f.width = h.shape[0], h.shape[1]
	if f.width == 0 {
		return refuse(f.path, "holds vectors of width 0; write the array with at least one column")
	}
	return checkLength(f.path, h, f.size, len(f.data))
}

// checkLength compares the array's length with what the header announces.
func checkLength(path string, h header, size, got int) error {
	n, ok := elements(h.shape)
	if !ok {
		return refuse(path, "announces a shape of %v, which no file can hold; write it again with numpy.save", h.shape)
	}
	switch want := n * size; {
	case got < want:
		return refuse(path, "is cut off: the shape %v needs %d bytes after the header, and there are %d; write or copy it again", h.shape, want, got)
	case got > want:
		return refuse(path, "is too long: the shape %v needs %d bytes after the header, and there are %d; write one array to a file", h.shape, want, got)
	}
	return nil
}

// load maps a file and reads its header.
func load(path string) ([]byte, header, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, header{}, fmt.Errorf("npy: %w", err)
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, header{}, fmt.Errorf("npy: %w", err)
	}
	switch {
	case stat.IsDir():
		return nil, header{}, refuse(path, "is a folder; name a .npy file")
	case !stat.Mode().IsRegular():
		return nil, header{}, refuse(path, "is not a regular file and can't be mapped; copy it to a file first")
	case stat.Size() == 0: // which can't be mapped
		return nil, header{}, refuse(path, "is empty; write it with numpy.save")
	case stat.Size() > math.MaxInt:
		return nil, header{}, refuse(path, "is larger than this machine can address")
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, int(stat.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, header{}, fmt.Errorf("npy: map %s: %w", path, err)
	}
	h, err := parseHeader(mem)
	if err != nil {
		unix.Munmap(mem)
		return nil, header{}, refuse(path, "%v", err)
	}
	return mem, h, nil
}

// Close ends the mapping. What Float32 returned must not be used after it.
func (f *File) Close() error {
	if f.mem == nil {
		return nil
	}
	mem := f.mem
	f.mem, f.data = nil, nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("npy: unmap %s: %w", f.path, err)
	}
	return nil
}

// Path returns the name that the file was opened under.
func (f *File) Path() string { return f.path }

// Len returns the number of rows.
func (f *File) Len() int { return f.rows }

// Width returns the number of columns, at least 1.
func (f *File) Width() int { return f.width }

// Type returns the element type: "float16", "float32" or "float64".
func (f *File) Type() string { return fmt.Sprintf("float%d", 8*f.size) }

// Row writes row i to dst, Width elements, and returns it; a nil dst is allocated. Float64 is rounded to the nearest float32,
// beyond its range to an infinity. It panics if i is out of range or dst has another length.
func (f *File) Row(dst []float32, i int) []float32 { return f.Rows(dst, i, i+1) }

// Rows writes the rows lo <= i < hi to dst, row-major (hi-lo) x Width, and returns it; a nil dst is allocated. It converts
// and panics as Row does.
func (f *File) Rows(dst []float32, lo, hi int) []float32 {
	if lo < 0 || hi < lo || hi > f.rows {
		panic(fmt.Sprintf("npy: rows %d to %d of %d", lo, hi, f.rows))
	}
	n := (hi - lo) * f.width
	if dst == nil {
		dst = make([]float32, n)
	}
	if len(dst) != n {
		panic(fmt.Sprintf("npy: %d elements asked into %d", n, len(dst)))
	}
	src := f.data[lo*f.width*f.size : hi*f.width*f.size]
	switch f.size {
	case 2:
		for i := range dst {
			dst[i] = Half(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case 4:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case 8:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	}
	return dst
}

// Float32 returns the whole array in place, row-major Len x Width, read only, valid until Close. It reports false
// when that can't be done: the elements are not float32, or they are not aligned to 4 bytes; use Rows then.
func (f *File) Float32() ([]float32, bool) {
	n := f.rows * f.width
	if f.size != 4 || !littleEndian() {
		return nil, false
	}
	if n == 0 {
		return []float32{}, true
	}
	p := unsafe.Pointer(unsafe.SliceData(f.data))
	if uintptr(p)%4 != 0 {
		return nil, false
	}
	return unsafe.Slice((*float32)(p), n), true
}

// littleEndian reports whether this machine stores the low byte first, as the file does.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// Half returns the value of an IEEE 754 half-precision number; every one is a float32.
func Half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0: // zero and subnormal: frac * 2^-24
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f: // infinity and NaN
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}
