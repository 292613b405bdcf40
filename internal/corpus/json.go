package corpus

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// jsonScanner reads one JSON text (RFC 8259), strictly, and without building what is only skipped. encoding/json
// takes several times as long over a row with an embedding, which is nearly all numbers.
type jsonScanner struct {
	data []byte
	pos  int
	buf  []byte // of a string with escapes
}

var errJSONEnd = errors.New("it ends too early")

// deepest is how far arrays and objects may nest in a value that is skipped.
const deepest = 1000

func (s *jsonScanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// end reports what stands after the text, if it isn't white space: a NUL too, which peek can't tell from the end.
func (s *jsonScanner) end() error {
	s.space()
	if s.pos == len(s.data) {
		return nil
	}
	if s.data[s.pos] == '{' {
		return fmt.Errorf("another object follows at byte %d; in JSONL each stands on a line of its own", s.pos+1)
	}
	return s.unexpected()
}

// peek returns the next byte that isn't white space, 0 at the end.
func (s *jsonScanner) peek() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

func (s *jsonScanner) unexpected() error {
	if s.pos >= len(s.data) {
		return errJSONEnd
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return fmt.Errorf("unexpected %q at byte %d", r, s.pos+1)
}

// object calls field with each key, positioned at its value, which field must consume.
func (s *jsonScanner) object(field func(key string) error) error {
	if s.peek() != '{' {
		return s.unexpected()
	}
	s.pos++
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		key, err := s.text()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.unexpected()
		}
		s.pos++
		if err := field(key); err != nil {
			return err
		}
		if more, err := s.more('}'); err != nil || !more {
			return err
		}
	}
}

// array calls element at each element, which element must consume.
func (s *jsonScanner) array(element func() error) error {
	if s.peek() != '[' {
		return s.unexpected()
	}
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if more, err := s.more(']'); err != nil || !more {
			return err
		}
	}
}

// more consumes a comma, or the end of an array or object.
func (s *jsonScanner) more(end byte) (bool, error) {
	switch c := s.peek(); c {
	case ',', end:
		s.pos++
		return c == ',', nil
	}
	return false, s.unexpected()
}

// text reads a string. Lone surrogates become U+FFFD, as encoding/json has it.
func (s *jsonScanner) text() (string, error) {
	if s.peek() != '"' {
		return "", s.unexpected()
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return string(s.data[start : s.pos-1]), nil
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", s.unexpected()
		}
		s.pos++
	}
	return "", errJSONEnd
}

// escaped reads the rest of a string that began at start, from its first escape on.
func (s *jsonScanner) escaped(start int) (string, error) {
	s.buf = append(s.buf[:0], s.data[start:s.pos]...)
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return string(s.buf), nil
		case c < ' ':
			return "", s.unexpected()
		case c != '\\':
			s.buf = append(s.buf, c)
			s.pos++
			continue
		}
		if s.pos+1 >= len(s.data) {
			break
		}
		s.pos++
		if err := s.escape(); err != nil {
			return "", err
		}
	}
	return "", errJSONEnd
}

// escape reads what follows a backslash.
func (s *jsonScanner) escape() error {
	switch c := s.data[s.pos]; c {
	case '"', '\\', '/':
		s.buf = append(s.buf, c)
	case 'b':
		s.buf = append(s.buf, '\b')
	case 'f':
		s.buf = append(s.buf, '\f')
	case 'n':
		s.buf = append(s.buf, '\n')
	case 'r':
		s.buf = append(s.buf, '\r')
	case 't':
		s.buf = append(s.buf, '\t')
	case 'u':
		r, ok := s.hex(s.pos + 1)
		if !ok {
			return s.unexpected()
		}
		s.pos += 4
		if utf16.IsSurrogate(r) {
			low, ok := rune(0), false
			if s.pos+2 < len(s.data) && s.data[s.pos+1] == '\\' && s.data[s.pos+2] == 'u' {
				low, ok = s.hex(s.pos + 3)
			}
			if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
				s.pos += 6
			}
		}
		s.buf = utf8.AppendRune(s.buf, r)
	default:
		return s.unexpected()
	}
	s.pos++
	return nil
}

func (s *jsonScanner) hex(at int) (rune, bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	var r rune
	for _, c := range s.data[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number returns the bytes of a number. They are valid until data changes.
func (s *jsonScanner) number() (string, error) {
	s.space()
	start := s.pos
	digits := func() bool {
		from := s.pos
		for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
			s.pos++
		}
		return s.pos > from
	}
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if !digits() {
		return "", s.unexpected()
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if !digits() {
			return "", s.unexpected()
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if !digits() {
			return "", s.unexpected()
		}
	}
	return unsafe.String(unsafe.SliceData(s.data[start:]), s.pos-start), nil
}

// vector reads an array of numbers. NaN and Infinity, which JSON doesn't have but Python writes, are read as what they
// say, so that the error can name them.
func (s *jsonScanner) vector(dst []float32) ([]float32, error) {
	err := s.array(func() error {
		switch c := s.peek(); {
		case c == '-' && s.word("-Infinity"):
			dst = append(dst, float32(math.Inf(-1)))
			return nil
		case c == '-', c >= '0' && c <= '9':
			n, err := s.number()
			if err != nil {
				return err
			}
			f, err := strconv.ParseFloat(n, 32)
			if err != nil {
				return fmt.Errorf("number %s is out of range", n)
			}
			dst = append(dst, float32(f))
			return nil
		case s.word("NaN"):
			dst = append(dst, float32(math.NaN()))
			return nil
		case s.word("Infinity"):
			dst = append(dst, float32(math.Inf(1)))
			return nil
		case c == '"', c == '[', c == '{', c == 'n', c == 't', c == 'f':
			return errNotNumbers
		}
		return s.unexpected()
	})
	return dst, err
}

// errNotNumbers: an embedding with something else in it.
var errNotNumbers = errors.New("is not an array of numbers")

// word consumes a literal if it comes next.
func (s *jsonScanner) word(w string) bool {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return false
	}
	s.pos += len(w)
	return true
}

// skip consumes any value.
func (s *jsonScanner) skip(depth int) error {
	if depth > deepest {
		return fmt.Errorf("it nests deeper than %d levels", deepest)
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object(func(string) error { return s.skip(depth + 1) })
	case c == '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case c == '"':
		_, err := s.text()
		return err
	case c == '-', c >= '0' && c <= '9':
		_, err := s.number()
		return err
	case s.word("true"), s.word("false"), s.word("null"):
		return nil
	}
	return s.unexpected()
}
