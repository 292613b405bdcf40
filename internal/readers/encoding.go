package readers

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// Decode returns a text as UTF-8, without a byte order mark. Its encoding is that of its mark, or the one that is named, or UTF-8:
// none is guessed, since a wrong guess is a text that nobody notices is damaged. line is where the error is, from 1; 0 if nowhere.
func Decode(data []byte, named string) (text string, line int, err error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		data = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(data)
		if err != nil {
			return "", 0, fmt.Errorf("it is UTF-16 by its first bytes, and can't be read as such: %w", err)
		}
		data = decoded
	case named != "":
		e, err := Encoding(named)
		if err != nil {
			return "", 0, err
		}
		decoded, err := e.NewDecoder().Bytes(data)
		if err != nil {
			return "", 0, fmt.Errorf("it can't be read as %s: %w", named, err)
		}
		data = decoded
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return "", lineOf(data, at), fmt.Errorf("NUL at byte %d: it is not a text", at)
	}
	if !utf8.Valid(data) {
		at := 0
		for rest := data; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
			rest = rest[size:]
		}
		return "", lineOf(data, at), fmt.Errorf("byte %d is 0x%02x, which is not UTF-8; --encoding says what it is, such as --encoding windows-1252", at, data[at])
	}
	return string(data), 0, nil
}

func lineOf(data []byte, at int) int { return bytes.Count(data[:at], []byte("\n")) + 1 }

// Encoding returns the encoding with a name, as the WHATWG lists them.
func Encoding(name string) (encoding.Encoding, error) {
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil, fmt.Errorf("the encoding %q is not known; there are utf-8, utf-16le, windows-1252, iso-8859-15, shift_jis, gb18030, big5, euc-kr, koi8-r and others", name)
	}
	return e, nil
}
