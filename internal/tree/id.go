package tree

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// ID is a node's identity: a version 5 UUID (RFC 9562, section 5.5). The zero ID names no node.
// Byte order and the order of the text form agree.
type ID [16]byte

// idNamespace is the name space that every id of aerie is derived in. Changing it changes every id of every
// corpus, so it never changes.
var idNamespace = ID{0x5f, 0x0a, 0x7c, 0x35, 0x1d, 0x5e, 0x4b, 0x0b, 0x9c, 0x77, 0x2f, 0x5b, 0x8e, 0x61, 0x3a, 0x94}

// LeafID returns the id of the leaf that came to be as chunk number index of a document. The same text in
// the same document is the same leaf, and keeps the id when it moves; an edit makes another one.
func LeafID(corpus, document string, index int, text string) ID {
	digest := sha256.Sum256([]byte(text))
	h := newID("leaf")
	writeString(h, corpus)
	writeString(h, document)
	writeInt(h, index)
	h.Write(digest[:])
	return sumID(h)
}

// SummaryID returns the id of the summary of a cluster: document is what it is filed under ([CorpusTree] or the
// document of the tree, so that the trees of the two scopes never share a summary); children are the ids of its
// nodes, all of level-1, in any order; recipe names how the text is made ([Recipe]). The summary's text has no part
// in it. Children are not changed.
func SummaryID(corpus, document string, level int, recipe string, children []ID) ID {
	sorted := slices.Clone(children)
	slices.SortFunc(sorted, ID.Compare)
	h := newID("summary")
	writeString(h, corpus)
	writeString(h, document)
	writeInt(h, level)
	writeString(h, recipe)
	for _, c := range sorted {
		h.Write(c[:])
	}
	return sumID(h)
}

// CarriedID returns the id of a summary that has an author's text over other children. The text is the author's, whose id
// is in it, so that a text stays a function of the id and no answer passes for another. The rest is as for [SummaryID].
func CarriedID(corpus, document string, level int, recipe string, author ID, children []ID) ID {
	sorted := slices.Clone(children)
	slices.SortFunc(sorted, ID.Compare)
	h := newID("carried")
	writeString(h, corpus)
	writeString(h, document)
	writeInt(h, level)
	writeString(h, recipe)
	h.Write(author[:])
	for _, c := range sorted {
		h.Write(c[:])
	}
	return sumID(h)
}

// Recipe hashes everything that decides how a summary's text and vector are made: prompt, model, limits,
// embedder, each as a name and a value in a fixed order. The result is 32 hexadecimal digits.
func Recipe(fields ...string) string {
	h := sha256.New()
	for _, f := range fields {
		writeString(h, f)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ParseID reads the text form of an ID, such as "6ba7b810-9dad-51d1-80b4-00c04fd430c8".
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("tree: %q is not a node id", s)
	}
	packed := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(packed)); err != nil {
		return ID{}, fmt.Errorf("tree: %q is not a node id", s)
	}
	return id, nil
}

// String returns the text form, 36 characters.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// Compare orders ids by their bytes: -1, 0 or +1.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// IsZero reports whether id names no node.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText returns the text form.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the text form.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

func newID(kind string) hash.Hash {
	h := sha1.New()
	h.Write(idNamespace[:])
	writeString(h, kind)
	return h
}

func sumID(h hash.Hash) ID {
	var id ID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x50 // version 5
	id[8] = id[8]&0x3f | 0x80 // RFC 9562 variant
	return id
}

// writeString writes a length before the bytes, so that no two lists of strings hash alike.
func writeString(h hash.Hash, s string) {
	writeInt(h, len(s))
	h.Write([]byte(s))
}

func writeInt(h hash.Hash, v int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(v))
	h.Write(b[:])
}
