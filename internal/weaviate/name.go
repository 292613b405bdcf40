package weaviate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

const (
	maxCollectionName = 255
	maxPropertyName   = 230
	metadataPrefix    = "meta_"
)

// CollectionName returns the name of the collection that holds a corpus: the prefix, "_" and the corpus's name, in which
// every character but a-z and 0-9 is escaped. Weaviate takes names that differ in case only for the same, so capitals
// are escaped too.
func CollectionName(prefix, corpus string) (string, error) {
	if corpus == "" {
		return "", errors.New("weaviate: the corpus has no name")
	}
	name := prefix + "_" + escape(corpus)
	if len(name) > maxCollectionName {
		return "", fmt.Errorf("weaviate: the corpus name %q makes a collection name of %d characters, Weaviate takes %d", corpus, len(name), maxCollectionName)
	}
	return name, nil
}

// escape writes a text with a-z, 0-9 and "_" alone.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteByte(c)
		case c == '_':
			b.WriteString("__")
		case c >= 'A' && c <= 'Z':
			b.WriteString("_u")
			b.WriteByte(c + 'a' - 'A')
		default:
			fmt.Fprintf(&b, "_x%02x", c)
		}
	}
	return b.String()
}

// unescape reads what escape has written, and nothing else.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for rest := s; rest != ""; {
		switch {
		case rest[0] != '_':
			b.WriteByte(rest[0])
			rest = rest[1:]
		case strings.HasPrefix(rest, "__"):
			b.WriteByte('_')
			rest = rest[2:]
		case strings.HasPrefix(rest, "_u") && len(rest) >= 3 && rest[2] >= 'a' && rest[2] <= 'z':
			b.WriteByte(rest[2] + 'A' - 'a')
			rest = rest[3:]
		case strings.HasPrefix(rest, "_x") && len(rest) >= 4:
			var c byte
			if _, err := fmt.Sscanf(rest[2:4], "%02x", &c); err != nil {
				return "", false
			}
			b.WriteByte(c)
			rest = rest[4:]
		default:
			return "", false
		}
	}
	return b.String(), escape(b.String()) == s
}

// kind is the type of a metadata value, by the name that it has in a property's name.
type kind string

const (
	kindText     kind = "text"
	kindNumber   kind = "number"
	kindBoolean  kind = "boolean"
	kindTexts    kind = "texts"
	kindNumbers  kind = "numbers"
	kindBooleans kind = "booleans"
	// Whole numbers that no float64 holds are kept as texts too, beside the number that they are nearest to: the server's own
	// integers come back as float64.
	kindInteger  kind = "integer"
	kindIntegers kind = "integers"
)

// dataTypes are Weaviate's names of the kinds.
var dataTypes = map[kind]string{
	kindText: "text", kindNumber: "number", kindBoolean: "boolean",
	kindTexts: "text[]", kindNumbers: "number[]", kindBooleans: "boolean[]",
	kindInteger: "text", kindIntegers: "text[]",
}

// list returns the kind of a list with elements of k.
func (k kind) list() kind { return k + "s" }

// exact reports whether the kind stands beside numbers, and adds their digits.
func (k kind) exact() bool { return k == kindInteger || k == kindIntegers }

// kindsOf returns the kinds of property that a valid metadata value is written to; what is compared is in the first.
func kindsOf(value any) []kind {
	switch value.(type) {
	case string:
		return []kind{kindText}
	case float64:
		return []kind{kindNumber}
	case int64:
		return []kind{kindNumber, kindInteger}
	case bool:
		return []kind{kindBoolean}
	case []string:
		return []kind{kindTexts}
	case []float64:
		return []kind{kindNumbers}
	case []int64:
		return []kind{kindNumbers, kindIntegers}
	case []bool:
		return []kind{kindBooleans}
	}
	panic(fmt.Sprintf("weaviate: metadata of type %T passed the check", value))
}

var plainKey = regexp.MustCompile(`^[a-z][_0-9A-Za-z]{0,99}$`)

// isPlain reports whether a metadata key may be the name of its property.
func isPlain(key string) bool {
	return plainKey.MatchString(key) && !isOwn(key) && !strings.HasPrefix(key, metadataPrefix)
}

// escapedName returns the property's name of a metadata key that can't have its own.
func escapedName(key string, k kind) string { return metadataPrefix + string(k) + "_" + escape(key) }

// metadataKey returns the key whose values a property holds, and whether it is one of metadata; the kind, if the name tells it.
func metadataKey(property string) (key string, k kind, ok bool) {
	if isOwn(property) {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(property, metadataPrefix)
	if !ok {
		return property, "", true
	}
	name, escaped, ok := strings.Cut(rest, "_")
	if !ok || dataTypes[kind(name)] == "" {
		return "", "", false
	}
	key, ok = unescape(escaped)
	return key, kind(name), ok
}
