package weaviate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/aerie-rag/aerie/internal/tree"
)

// packNode appends a node without its id and its document.
func packNode(b []byte, n *tree.Node) []byte {
	for _, v := range []int{n.Level, n.ChunkIndex, n.Tokens, n.NLeaves, n.Born, n.Died, n.Unseen, n.Formed, int(n.Updated)} {
		b = binary.AppendVarint(b, int64(v))
	}
	for _, text := range []string{string(n.Scope), n.Recipe, n.Source, n.Path, n.Context, n.Text} {
		b = packText(b, text)
	}
	b = append(b, n.Author[:]...)
	b = binary.AppendUvarint(b, uint64(len(n.Children)))
	for _, id := range n.Children {
		b = append(b, id[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Vector)))
	for _, x := range n.Vector {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	b = binary.AppendUvarint(b, uint64(len(n.Metadata)))
	for key, value := range n.Metadata {
		b = packValue(packText(b, key), value)
	}
	return b
}

func packText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// packValue appends the first letter of a value's kind, a capital for a list, and the value.
func packValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return packText(append(b, 't'), v)
	case float64:
		return binary.LittleEndian.AppendUint64(append(b, 'n'), math.Float64bits(v))
	case int64:
		return binary.LittleEndian.AppendUint64(append(b, 'i'), uint64(v))
	case []int64:
		b = binary.AppendUvarint(append(b, 'I'), uint64(len(v)))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		}
	case bool:
		return packBool(append(b, 'b'), v)
	case []string:
		b = binary.AppendUvarint(append(b, 'T'), uint64(len(v)))
		for _, s := range v {
			b = packText(b, s)
		}
	case []float64:
		b = binary.AppendUvarint(append(b, 'N'), uint64(len(v)))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	case []bool:
		b = binary.AppendUvarint(append(b, 'B'), uint64(len(v)))
		for _, x := range v {
			b = packBool(b, x)
		}
	default:
		panic(fmt.Sprintf("weaviate: metadata of type %T passed the check", value))
	}
	return b
}

func packBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// errPacked is what a packed node fails with that was cut short or changed.
var errPacked = errors.New("the packed form is damaged")

// unpackNode reads what packNode has written. The node shares no memory with b.
func unpackNode(b []byte) (tree.Node, error) {
	var n tree.Node
	u := unpacker{rest: b}
	for _, v := range []*int{&n.Level, &n.ChunkIndex, &n.Tokens, &n.NLeaves, &n.Born, &n.Died, &n.Unseen, &n.Formed} {
		*v = u.int()
	}
	n.Updated = int64(u.int())
	n.Scope, n.Recipe = tree.Scope(u.text()), u.text()
	n.Source, n.Path, n.Context, n.Text = u.text(), u.text(), u.text(), u.text()
	copy(n.Author[:], u.bytes(len(n.Author)))
	if count := u.count(len(tree.ID{})); count > 0 {
		n.Children = make([]tree.ID, count)
		for i := range n.Children {
			copy(n.Children[i][:], u.bytes(len(tree.ID{})))
		}
	}
	if count := u.count(4); count > 0 {
		n.Vector = make([]float32, count)
		raw := u.bytes(4 * count)
		for i := range n.Vector {
			n.Vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	if count := u.count(2); count > 0 {
		n.Metadata = make(tree.Metadata, count)
		for range count {
			key := u.text()
			n.Metadata[key] = u.value()
		}
	}
	if len(u.rest) > 0 {
		u.fail()
	}
	return n, u.err
}

// unpacker reads values until the first that can't be; then it returns zeros.
type unpacker struct {
	rest []byte
	err  error
}

func (u *unpacker) int() int {
	v, size := binary.Varint(u.rest)
	if size <= 0 {
		u.fail()
		return 0
	}
	u.rest = u.rest[size:]
	return int(v)
}

// count reads how many elements of at least a size follow.
func (u *unpacker) count(size int) int {
	v, read := binary.Uvarint(u.rest)
	if read <= 0 || v > uint64(len(u.rest)-read)/uint64(size) {
		u.fail()
		return 0
	}
	u.rest = u.rest[read:]
	return int(v)
}

func (u *unpacker) text() string { return string(u.bytes(u.count(1))) }

func (u *unpacker) bytes(n int) []byte {
	if n > len(u.rest) {
		u.fail()
		return make([]byte, n)
	}
	out := u.rest[:n]
	u.rest = u.rest[n:]
	return out
}

func (u *unpacker) number() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(u.bytes(8)))
}

func (u *unpacker) value() any {
	switch u.bytes(1)[0] {
	case 't':
		return u.text()
	case 'n':
		return u.number()
	case 'i':
		return int64(binary.LittleEndian.Uint64(u.bytes(8)))
	case 'I':
		values := make([]int64, u.count(8))
		for i := range values {
			values[i] = int64(binary.LittleEndian.Uint64(u.bytes(8)))
		}
		return values
	case 'b':
		return u.bytes(1)[0] == 1
	case 'T':
		values := make([]string, u.count(1))
		for i := range values {
			values[i] = u.text()
		}
		return values
	case 'N':
		values := make([]float64, u.count(8))
		for i := range values {
			values[i] = u.number()
		}
		return values
	case 'B':
		values := make([]bool, u.count(1))
		for i := range values {
			values[i] = u.bytes(1)[0] == 1
		}
		return values
	}
	u.fail()
	return nil
}

func (u *unpacker) fail() {
	u.rest, u.err = nil, errPacked
}
