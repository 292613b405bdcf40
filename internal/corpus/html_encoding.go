package corpus

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// decodeHTML returns a page as UTF-8, without a byte order mark. A page that is valid UTF-8 is UTF-8, whatever it says of itself; any
// other is what it says, wherever it says so; and one that says nothing is what its bytes make more likely.
func decodeHTML(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("<\x00")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(data)
	case bytes.HasPrefix(data, []byte("\xfe\xff")), bytes.HasPrefix(data, []byte("\x00<")):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder().Bytes(data)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	valid := utf8.Valid(data)
	if valid && !bytes.Contains(data, []byte("\x1b")) {
		return data, nil
	}
	declared, name := declaredEncoding(data)
	switch {
	case valid && !strings.HasPrefix(name, "iso-2022"): // an encoding of seven bits looks like ASCII
		return data, nil
	case declared != nil && name != "utf-8":
		return declared.NewDecoder().Bytes(data)
	case name == "utf-8" || mostlyUTF8(data):
		return bytes.ToValidUTF8(data, []byte("\ufffd")), nil
	}
	western, _ := charset.Lookup("windows-1252")
	return western.NewDecoder().Bytes(data)
}

var (
	xmlEncoding = regexp.MustCompile(`(?is)^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([^"'>]+)["']`)
	metaCharset = regexp.MustCompile(`(?is)\bcharset\s*=\s*["']?\s*([a-z0-9_:.-]+)`)
)

// declaredEncoding returns the encoding that a page names in its XML declaration or in a meta element, however late; nil if it names
// none that is known.
func declaredEncoding(data []byte) (encoding.Encoding, string) {
	if m := xmlEncoding.FindSubmatch(data[:min(len(data), 1024)]); m != nil {
		if e, name := charset.Lookup(string(m[1])); e != nil && !strings.HasPrefix(name, "utf-16") {
			return e, name
		}
	}
	for rest := data; ; {
		at := indexFold(rest, "<meta")
		if at < 0 {
			return nil, ""
		}
		rest = rest[at:]
		end := bytes.IndexByte(rest, '>')
		if end < 0 {
			return nil, ""
		}
		if m := metaCharset.FindSubmatch(rest[:min(end, 4096)]); m != nil {
			e, name := charset.Lookup(html.UnescapeString(string(m[1])))
			if strings.HasPrefix(name, "utf-16") { // it can't be: the declaration was read
				return charset.Lookup("utf-8")
			}
			if e != nil {
				return e, name
			}
		}
		rest = rest[end:]
	}
}

// mostlyUTF8 reports whether what isn't ASCII is UTF-8 but for a few bytes that were damaged: no text of another encoding looks so.
func mostlyUTF8(data []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		if i += size; r == utf8.RuneError && size == 1 {
			bad++
		} else {
			good++
		}
	}
	return good > 4*bad
}

// isXHTML reports whether a page is written as XML: a slash then ends any element.
func isXHTML(data []byte) bool {
	head := bytes.ToLower(data[:min(len(data), 4096)])
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("<?xml")) {
		return true
	}
	tag := bytes.Index(head, []byte("<html"))
	if tag < 0 {
		return false
	}
	tag2 := bytes.IndexByte(head[tag:], '>')
	return tag2 > 0 && bytes.Contains(head[tag:tag+tag2], []byte("xmlns"))
}
