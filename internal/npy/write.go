package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Write writes a float32 array of shape (rows, width), row-major, or of one dimension with rows elements if width is 0. It
// panics if data has another length.
func Write(w io.Writer, rows, width int, data []float32) error {
	return write(w, "<f4", rows, width, data, math.Float32bits)
}

// WriteInt32 writes an int32 array as [Write] does one of float32.
func WriteInt32(w io.Writer, rows, width int, data []int32) error {
	return write(w, "<i4", rows, width, data, func(v int32) uint32 { return uint32(v) })
}

func write[T any](w io.Writer, descr string, rows, width int, data []T, bits func(T) uint32) error {
	shape := fmt.Sprintf("(%d, %d)", rows, width)
	want := rows * width
	if width == 0 {
		shape, want = fmt.Sprintf("(%d,)", rows), rows
	}
	if len(data) != want || rows < 0 || width < 0 {
		panic(fmt.Sprintf("npy: %d elements for shape %s", len(data), shape))
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
	// The array starts at a multiple of 64 bytes, so that it can be mapped and used in place.
	total := (10 + len(dict) + 1 + 63) / 64 * 64
	head := make([]byte, 0, total)
	head = append(head, magic+"\x01\x00"...)
	head = binary.LittleEndian.AppendUint16(head, uint16(total-10))
	head = append(head, dict...)
	head = append(head, strings.Repeat(" ", total-len(head)-1)+"\n"...)
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("npy: %w", err)
	}
	buf := make([]byte, 0, 1<<16)
	for len(data) > 0 {
		n := min(len(data), cap(buf)/4)
		for _, v := range data[:n] {
			buf = binary.LittleEndian.AppendUint32(buf, bits(v))
		}
		if _, err := w.Write(buf); err != nil {
			return fmt.Errorf("npy: %w", err)
		}
		data, buf = data[n:], buf[:0]
	}
	return nil
}
