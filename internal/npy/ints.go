package npy

import (
	"encoding/binary"
	"math"

	"golang.org/x/sys/unix"
)

// ReadInts reads an array of counts: one dimension, or two with one column, of integers of 1, 2, 4 or 8 bytes, signed or not.
// Errors about its content are ErrFormat.
func ReadInts(path string) ([]int, error) {
	mem, h, err := load(path)
	if err != nil {
		return nil, err
	}
	defer unix.Munmap(mem)
	read, size := integer(h.descr)
	if read == nil {
		return nil, refuse(path, "holds %s, but counts are little-endian integers; write it with numpy.save(file, array.astype(\"<i8\"))", describe(h.descr))
	}
	column := len(h.shape) == 2 && h.shape[1] == 1
	if len(h.shape) != 1 && !column {
		return nil, refuse(path, "has the shape %v, but counts need one dimension; write it with numpy.save(file, array.ravel())", h.shape)
	}
	data := mem[h.offset:]
	if err := checkLength(path, h, size, len(data)); err != nil {
		return nil, err
	}
	out := make([]int, h.shape[0])
	for i := range out {
		v, ok := read(data[i*size:])
		if !ok {
			return nil, refuse(path, "holds a number at index %d that is out of range; counts are at most %d", i, math.MaxInt)
		}
		out[i] = v
	}
	return out, nil
}

// integer returns how to read one element of an integer type, and its size; nil for any other type.
func integer(descr string) (read func([]byte) (int, bool), size int) {
	le := binary.LittleEndian
	switch descr {
	case "|i1", "<i1":
		return func(b []byte) (int, bool) { return int(int8(b[0])), true }, 1
	case "|u1", "<u1":
		return func(b []byte) (int, bool) { return int(b[0]), true }, 1
	case "<i2":
		return func(b []byte) (int, bool) { return int(int16(le.Uint16(b))), true }, 2
	case "<u2":
		return func(b []byte) (int, bool) { return int(le.Uint16(b)), true }, 2
	case "<i4":
		return func(b []byte) (int, bool) { return int(int32(le.Uint32(b))), true }, 4
	case "<u4":
		return func(b []byte) (int, bool) { return int(le.Uint32(b)), true }, 4
	case "<i8":
		return func(b []byte) (int, bool) { return int(le.Uint64(b)), true }, 8
	case "<u8":
		return func(b []byte) (int, bool) { v := le.Uint64(b); return int(v), v <= math.MaxInt }, 8
	}
	return nil, 0
}

// describe puts an element type in words.
func describe(descr string) string {
	if descr == "[" {
		return "records"
	}
	if len(descr) < 2 {
		return "elements of type '" + descr + "'"
	}
	kinds := map[byte]string{'f': "floats", 'i': "integers", 'u': "unsigned integers", 'c': "complex numbers", 'b': "booleans", 'O': "Python objects", 'S': "byte strings", 'U': "strings"}
	kind, ok := kinds[descr[1]]
	if !ok {
		kind = "elements"
	}
	if descr[0] == '>' {
		kind = "big-endian " + kind
	}
	return kind + " of type '" + descr + "'"
}
