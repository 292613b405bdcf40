package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// file makes a .npy file by the definition of the format (numpy/lib/format.py).
func file(major byte, dict string, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("\x93NUMPY")
	b.Write([]byte{major, 0})
	if major == 1 {
		binary.Write(&b, binary.LittleEndian, uint16(len(dict)))
	} else {
		binary.Write(&b, binary.LittleEndian, uint32(len(dict)))
	}
	b.WriteString(dict)
	b.Write(data)
	return b.Bytes()
}

func dict(descr string, fortran string, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, fortran, shape)
}

func save(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func pack(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

func open(t *testing.T, data []byte) *File {
	t.Helper()
	f, err := Open(save(t, data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestOpen(t *testing.T) {
	f4 := pack([]float32{1, -2, 3.5, 0, 1e-30, 7})
	f8 := pack([]float64{1, -2, 3.5, 0, 1e-30, 7})
	f2 := pack([]uint16{0x3c00, 0xc000, 0x4300, 0, 0x0001, 0x4700}) // 1 -2 3.5 0 2^-24 7
	want := []float32{1, -2, 3.5, 0, 1e-30, 7}
	want2 := []float32{1, -2, 3.5, 0, 1.0 / (1 << 24), 7}
	for name, test := range map[string]struct {
		data []byte
		kind string
		want []float32
	}{
		"version 1":      {file(1, dict("<f4", "False", "(3, 2)"), f4), "float32", want},
		"version 2":      {file(2, dict("<f4", "False", "(3, 2)"), f4), "float32", want},
		"version 3":      {file(3, dict("<f8", "False", "(3, 2)"), f8), "float64", want},
		"half":           {file(1, dict("<f2", "False", "(3, 2)"), f2), "float16", want2},
		"other order":    {file(1, `{"shape": (3L, 2L,), "fortran_order": False, "descr": "<f4"}`, f4), "float32", want},
		"odd alignment":  {file(1, dict("<f4", "False", "(3, 2)")+"   ", f4), "float32", want},
		"no white space": {file(1, "{'descr':'<f4','fortran_order':False,'shape':(3,2)}", f4), "float32", want},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, test.data)
			if f.Len() != 3 || f.Width() != 2 || f.Type() != test.kind {
				t.Errorf("%d x %d of %s", f.Len(), f.Width(), f.Type())
			}
			if diff := cmp.Diff(test.want, f.Rows(nil, 0, 3)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.want[2:4], f.Row(make([]float32, 2), 1)); diff != "" {
				t.Error(diff)
			}
			if view, ok := f.Float32(); ok {
				if diff := cmp.Diff(test.want, view); diff != "" {
					t.Error(diff)
				}
			} // else the array isn't float32, or its header ends at an odd place; TestWrite has one that can be used in place
		})
	}
}

// The header is what NumPy 2 wrote for an array of 2,637 vectors.
func TestHeaderOfNumPy(t *testing.T) {
	head := "\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (2637, 384), }" + strings.Repeat(" ", 53) + "\n"
	if len(head) != 128 {
		t.Fatalf("the header has %d bytes", len(head))
	}
	f := open(t, append([]byte(head), make([]byte, 2637*384*2)...))
	if f.Len() != 2637 || f.Width() != 384 || f.Type() != "float16" {
		t.Errorf("%d x %d of %s", f.Len(), f.Width(), f.Type())
	}
}

// Every message must name the file, what is wrong and what to do.
func TestRefused(t *testing.T) {
	data := pack([]float32{1, 2, 3, 4})
	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"empty":           {nil, "is empty; write it with numpy.save"},
		"not npy":         {[]byte("id,text\n1,2\n"), "is not a .npy file; write it with numpy.save"},
		"zip":             {[]byte("PK\x03\x04rest of the archive"), "extract the one that you mean"},
		"short magic":     {[]byte("\x93NUM"), "is not a .npy file"},
		"cut header":      {file(1, dict("<f4", "False", "(2, 2)"), data)[:40], "ends inside its header"},
		"cut prefix":      {[]byte("\x93NUMPY\x02\x00\x01"), "ends inside its header"},
		"version":         {file(9, dict("<f4", "False", "(2, 2)"), data), "format version 9.0"},
		"huge header":     {append([]byte("\x93NUMPY\x02\x00"), 0xff, 0xff, 0xff, 0x7f), "claims a header of 2147483647 bytes"},
		"big-endian":      {file(1, dict(">f4", "False", "(2, 2)"), data), "holds big-endian floats of type '>f4', but vectors are little-endian"},
		"integers":        {file(1, dict("<i8", "False", "(2, 2)"), data), "holds integers of type '<i8'"},
		"long double":     {file(1, dict("<f16", "False", "(2, 2)"), data), "holds floats of type '<f16'"},
		"objects":         {file(1, dict("|O", "False", "(2, 2)"), data), "holds Python objects"},
		"records":         {file(1, "{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (2,), }", data), "holds records"},
		"columns":         {file(1, dict("<f4", "True", "(2, 2)"), data), "is stored column by column; write it with numpy.save(file, numpy.ascontiguousarray(array))"},
		"0 dimensions":    {file(1, dict("<f4", "False", "()"), data[:4]), "has 0 dimensions, but vectors need two"},
		"1 dimension":     {file(1, dict("<f4", "False", "(4,)"), data), "has 1 dimensions"},
		"3 dimensions":    {file(1, dict("<f4", "False", "(2, 2, 1)"), data), "has 3 dimensions"},
		"no width":        {file(1, dict("<f4", "False", "(2, 0)"), nil), "width 0"},
		"cut off":         {file(1, dict("<f4", "False", "(2, 2)"), data[:15]), "is cut off: the shape [2 2] needs 16 bytes after the header, and there are 15"},
		"too long":        {file(1, dict("<f4", "False", "(2, 2)"), append(data, 0)), "is too long"},
		"overflow":        {file(1, dict("<f4", "False", "(9223372036854775807, 9223372036854775807)"), data), "which no file can hold"},
		"overflow to 0":   {file(1, dict("<f4", "False", "(4294967296, 4294967296)"), nil), "which no file can hold"},
		"too many digits": {file(1, dict("<f4", "False", "(99999999999999999999, 2)"), data), "can't be read"},
		"negative":        {file(1, dict("<f4", "False", "(-2, 2)"), data), "can't be read"},
		"no descr":        {file(1, "{'fortran_order': False, 'shape': (2, 2), }", data), `no key "descr"`},
		"twice":           {file(1, "{'shape': (1, 4), 'shape': (2, 2), }", data), `"shape" stands twice`},
		"unknown key":     {file(1, "{'color': 'red'}", data), `unknown key "color"`},
		"no dict":         {file(1, "hello", data), "no dict"},
		"rest":            {file(1, dict("<f4", "False", "(2, 2)")+"x", data), "text after the dict"},
		"not a bool":      {file(1, dict("<f4", "Maybe", "(2, 2)"), data), "neither True nor False"},
		"not a tuple":     {file(1, dict("<f4", "False", "[2, 2]"), data), "shape is not a tuple"},
		"open string":     {file(1, "{'descr", data), "a string without an end"},
	} {
		t.Run(name, func(t *testing.T) {
			path := save(t, test.data)
			f, err := Open(path)
			if err == nil {
				f.Close()
				t.Fatal("no error")
			}
			if !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), "npy: "+path+" ") || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q; it should say %q", err, test.says)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.npy")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that doesn't exist: %v", err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrFormat) {
		t.Errorf("a folder: %v", err)
	}
}

func TestNoRows(t *testing.T) {
	f := open(t, file(1, dict("<f4", "False", "(0, 384)"), nil))
	if view, ok := f.Float32(); f.Len() != 0 || f.Width() != 384 || !ok || len(view) != 0 {
		t.Errorf("%d x %d, %v", f.Len(), f.Width(), ok)
	}
}

// The values are those of IEEE 754: the value of a half is sign * 2^(exponent-15) * (1 + fraction/1024), subnormals
// sign * 2^-14 * fraction/1024.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		exp, frac := h>>10&0x1f, h&0x3ff
		want := math.Ldexp(1+float64(frac)/1024, exp-15)
		switch {
		case exp == 0:
			want = math.Ldexp(float64(frac)/1024, -14)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		got := float64(Half(uint16(h)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (h>>15 == 1) && !math.IsNaN(want) {
			t.Fatalf("Half(%#04x) = %v, want %v", h, got, want)
		}
	}
}

func TestFloat64IsRounded(t *testing.T) {
	f := open(t, file(1, dict("<f8", "False", "(1, 4)"), pack([]float64{0.1, 1e300, math.NaN(), -1e-300})))
	got := f.Row(nil, 0)
	if got[0] != 0.1 || !math.IsInf(float64(got[1]), 1) || got[2] == got[2] || got[3] != 0 {
		t.Errorf("%v", got)
	}
}

func TestRowsPanics(t *testing.T) {
	f := open(t, file(1, dict("<f4", "False", "(2, 2)"), pack([]float32{1, 2, 3, 4})))
	for name, call := range map[string]func(){
		"beyond":      func() { f.Row(nil, 2) },
		"negative":    func() { f.Rows(nil, -1, 1) },
		"backwards":   func() { f.Rows(nil, 1, 0) },
		"other width": func() { f.Row(make([]float32, 3), 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func TestReadInts(t *testing.T) {
	for descr, data := range map[string][]byte{
		"|i1": pack([]int8{1, 100, -3}), "|u1": pack([]uint8{1, 100, 253}), "<i2": pack([]int16{1, 100, -3}), "<u2": pack([]uint16{1, 100, 65533}),
		"<i4": pack([]int32{1, 100, -3}), "<u4": pack([]uint32{1, 100, 4294967293}), "<i8": pack([]int64{1, 100, -3}), "<u8": pack([]uint64{1, 100, 3}),
	} {
		last := map[string]int{"|u1": 253, "<u2": 65533, "<u4": 4294967293, "<u8": 3}
		want := []int{1, 100, -3}
		if v, ok := last[descr]; ok {
			want[2] = v
		}
		for _, shape := range []string{"(3,)", "(3, 1)"} {
			got, err := ReadInts(save(t, file(1, dict(descr, "False", shape), data)))
			if err != nil {
				t.Errorf("%s: %v", descr, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", descr, diff)
			}
		}
	}
	for _, test := range []struct {
		data []byte
		says string
	}{
		{file(1, dict("<f4", "False", "(1,)"), pack(float32(1))), "holds floats of type '<f4', but counts are little-endian integers"},
		{file(1, dict("|b1", "False", "(1,)"), []byte{1}), "holds booleans"},
		{file(1, dict("<i4", "False", "(2, 2)"), make([]byte, 16)), "has the shape [2 2], but counts need one dimension"},
		{file(1, dict("<i4", "False", "()"), make([]byte, 4)), "counts need one dimension"},
		{file(1, dict("<i4", "False", "(2,)"), make([]byte, 7)), "is cut off"},
		{file(1, dict("<u8", "False", "(2,)"), pack(uint64(1), uint64(math.MaxUint64))), "index 1 that is out of range"},
	} {
		if _, err := ReadInts(save(t, test.data)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v; it should say %q", err, test.says)
		}
	}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	data := make([]float32, 40_000)
	for i := range data {
		data[i] = float32(i) / 7
	}
	if err := Write(&b, 20_000, 2, data); err != nil {
		t.Fatal(err)
	}
	f := open(t, b.Bytes())
	view, ok := f.Float32()
	if !ok {
		t.Fatal("what is written can't be used in place")
	}
	if diff := cmp.Diff(data, view); diff != "" {
		t.Error(diff)
	}

	b.Reset()
	if err := WriteInt32(&b, 3, 0, []int32{1, -2, math.MaxInt32}); err != nil {
		t.Fatal(err)
	}
	// Byte for byte what numpy.save writes for numpy.array([1, -2, 2147483647], dtype="<i4").
	want := "\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }" + strings.Repeat(" ", 60) + "\n" +
		"\x01\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\x7f"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}

	full := errors.New("disk full")
	if err := Write(failing{full}, 1, 1, []float32{1}); !errors.Is(err, full) {
		t.Errorf("a failing writer: %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

var _ io.Writer = failing{}

func TestWritePanicsOnAnotherLength(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Write(io.Discard, 2, 2, make([]float32, 3))
}

func FuzzHeader(f *testing.F) {
	f.Add(file(1, dict("<f4", "False", "(3, 2)"), nil))
	f.Add(file(2, "{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': (), }", nil))
	f.Add(file(3, `{"shape": (3L, 2L,), "fortran_order": False, "descr": "<f4"}`, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHeader(data)
		if err != nil {
			return
		}
		if h.offset < 10 || h.offset > len(data) {
			t.Errorf("%q: the array starts at %d of %d", data, h.offset, len(data))
		}
		for _, d := range h.shape {
			if d < 0 {
				t.Errorf("%q: shape %v", data, h.shape)
			}
		}
		// What was understood, written again, is understood the same.
		if strings.ContainsAny(h.descr, "'[") {
			return
		}
		shape := fmt.Sprint(h.shape)
		fortran := "False"
		if h.fortran {
			fortran = "True"
		}
		again, err := parseHeader(file(1, dict(h.descr, fortran, "("+strings.ReplaceAll(strings.Trim(shape, "[]"), " ", ", ")+")"), nil))
		if len(data) < 60_000 && (err != nil || again.descr != h.descr || again.fortran != h.fortran || !cmp.Equal(again.shape, h.shape)) {
			t.Errorf("%q: %+v, written again %+v, %v", data, h, again, err)
		}
	})
}
