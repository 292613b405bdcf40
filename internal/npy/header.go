package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// magic starts every file.
const magic = "\x93NUMPY"

// maxHeader bounds the length that a header may claim. Real ones are about 120 bytes.
const maxHeader = 1 << 20

// header is what stands before the array.
type header struct {
	descr   string // such as "<f4"
	fortran bool
	shape   []int
	offset  int // of the array in the file
}

// errShort: the bytes at hand end inside the header.
var errShort = errors.New("ends inside its header; it was cut off while being written or copied, so write it again")

// parseHeader reads the header at the start of data. Errors are sentences without a subject: the caller puts the file's
// name before them.
func parseHeader(data []byte) (header, error) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return header{}, errors.New("is not a .npy file; write it with numpy.save (an .npz archive holds several such files: extract the one that you mean)")
	}
	if len(data) < 10 {
		return header{}, errShort
	}
	var length, start int
	switch major := data[6]; major {
	case 1:
		length, start = int(binary.LittleEndian.Uint16(data[8:])), 10
	case 2, 3:
		if len(data) < 12 {
			return header{}, errShort
		}
		length, start = int(binary.LittleEndian.Uint32(data[8:])), 12
	default:
		return header{}, fmt.Errorf("has format version %d.%d, but 1.0, 2.0 and 3.0 are known; write it with numpy.save", major, data[7])
	}
	if length > maxHeader {
		return header{}, fmt.Errorf("claims a header of %d bytes, which no array of numbers needs; write it again with numpy.save", length)
	}
	if len(data) < start+length {
		return header{}, errShort
	}
	h, err := parseDict(string(data[start : start+length]))
	if err != nil {
		return header{}, fmt.Errorf("has a header that can't be read (%w); write it again with numpy.save", err)
	}
	h.offset = start + length
	return h, nil
}

// parseDict reads the Python dict literal of a header.
func parseDict(s string) (header, error) {
	p := literal{rest: s}
	var h header
	seen := map[string]bool{}
	if !p.take("{") {
		return header{}, errors.New("no dict")
	}
	for !p.take("}") {
		key, err := p.quoted()
		if err != nil {
			return header{}, err
		}
		if seen[key] {
			return header{}, fmt.Errorf("key %q stands twice", key)
		}
		seen[key] = true
		if !p.take(":") {
			return header{}, fmt.Errorf("no colon after %q", key)
		}
		switch key {
		case "descr":
			h.descr, err = p.descr()
		case "fortran_order":
			h.fortran, err = p.boolean()
		case "shape":
			h.shape, err = p.tuple()
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return header{}, err
		}
		if !p.take(",") && !p.peek("}") {
			return header{}, fmt.Errorf("no comma after %q", key)
		}
	}
	if strings.TrimSpace(p.rest) != "" {
		return header{}, errors.New("text after the dict")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return header{}, fmt.Errorf("no key %q", key)
		}
	}
	return h, nil
}

// literal reads the few Python literals that stand in a header.
type literal struct{ rest string }

func (p *literal) peek(token string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return strings.HasPrefix(p.rest, token)
}

func (p *literal) take(token string) bool {
	if !p.peek(token) {
		return false
	}
	p.rest = p.rest[len(token):]
	return true
}

func (p *literal) quoted() (string, error) {
	for _, quote := range []string{"'", `"`} {
		if !p.take(quote) {
			continue
		}
		text, rest, ok := strings.Cut(p.rest, quote)
		if !ok {
			return "", errors.New("a string without an end")
		}
		p.rest = rest
		return text, nil
	}
	return "", errors.New("no string where one belongs")
}

// descr reads the element type. A list describes records; it is passed on as "[" for the caller to refuse.
func (p *literal) descr() (string, error) {
	if !p.peek("[") {
		return p.quoted()
	}
	depth := 0
	for i := range len(p.rest) {
		switch p.rest[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		}
		if depth == 0 {
			p.rest = p.rest[i+1:]
			return "[", nil
		}
	}
	return "", errors.New("a list without an end")
}

func (p *literal) boolean() (bool, error) {
	switch {
	case p.take("True"):
		return true, nil
	case p.take("False"):
		return false, nil
	}
	return false, errors.New("fortran_order is neither True nor False")
}

func (p *literal) tuple() ([]int, error) {
	if !p.take("(") {
		return nil, errors.New("shape is not a tuple")
	}
	shape := []int{}
	for !p.take(")") {
		p.peek("")
		end := 0
		for end < len(p.rest) && p.rest[end] >= '0' && p.rest[end] <= '9' {
			end++
		}
		n, err := strconv.ParseInt(p.rest[:end], 10, 64)
		if err != nil || n > math.MaxInt {
			return nil, errors.New("shape holds something other than a count")
		}
		p.rest = strings.TrimPrefix(p.rest[end:], "L") // Python 2 wrote long integers with a suffix
		shape = append(shape, int(n))
		if !p.take(",") && !p.peek(")") {
			return nil, errors.New("no comma in shape")
		}
	}
	return shape, nil
}

// elements returns the product of shape, or false if it doesn't fit.
func elements(shape []int) (int, bool) {
	n := 1
	for _, d := range shape {
		if d != 0 && n > math.MaxInt/8/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}
