package weaviate

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// lean are the properties that every read needs.
var lean = []string{propDocument, propChunk, propLevel, propChildren, propScope, propTokens, propBorn, propDied, propRecipe, propLeaves, propAuthor, propUnseen, propFormed, propSource, propPath, propUpdated}

// request returns the part of a search request that says what to return.
func (s *Store) request(c *collection, with store.Fields) *pb.SearchRequest {
	r := &pb.SearchRequest{
		Collection: c.name, Tenant: s.cfg.Tenant, ConsistencyLevel: s.consistency(),
		//lint:ignore SA1019 servers still answer in the oldest form unless told that the client knows the newer ones
		Uses_123Api: true, Uses_127Api: true, // what servers of 1.27 look at
		Metadata:   &pb.MetadataRequest{Uuid: true, Vector: with.Vector},
		Properties: &pb.PropertiesRequest{},
	}
	switch {
	case with.Metadata || c.lacks(): // another process may have added properties since the schema was read
		r.Properties.ReturnAllNonrefProperties = true
	case with.Text:
		r.Properties.NonRefProperties = append(append(make([]string, 0, len(lean)+2), lean...), propText, propContext)
	default:
		r.Properties.NonRefProperties = lean
	}
	return r
}

var consistencyLevels = map[string]pb.ConsistencyLevel{
	"ONE":    pb.ConsistencyLevel_CONSISTENCY_LEVEL_ONE,
	"QUORUM": pb.ConsistencyLevel_CONSISTENCY_LEVEL_QUORUM,
	"ALL":    pb.ConsistencyLevel_CONSISTENCY_LEVEL_ALL,
}

// consistency returns the config's level; nil for the server's default.
func (s *Store) consistency() *pb.ConsistencyLevel {
	if s.cfg.Consistency == "" {
		return nil
	}
	level := consistencyLevels[s.cfg.Consistency]
	return &level
}

// decode returns the node of a search result. A vector that was asked for and isn't there is an error.
func (c *collection) decode(r *pb.SearchResult, with store.Fields) (tree.Node, error) {
	n := tree.Node{ID: resultID(r)}
	if n.ID.IsZero() {
		return n, fmt.Errorf("collection %s: an object without an id", c.name)
	}
	fields := r.GetProperties().GetNonRefProps().GetFields()
	n.DocumentID = fields[propDocument].GetTextValue()
	n.Scope = tree.Scope(fields[propScope].GetTextValue())
	n.Recipe = fields[propRecipe].GetTextValue()
	n.ChunkIndex = int(fields[propChunk].GetIntValue())
	n.Level = int(fields[propLevel].GetIntValue())
	n.Tokens = int(fields[propTokens].GetIntValue())
	n.Born = int(fields[propBorn].GetIntValue())
	n.Died = int(fields[propDied].GetIntValue())
	n.NLeaves = int(fields[propLeaves].GetIntValue())
	n.Unseen = int(fields[propUnseen].GetIntValue())
	n.Formed = int(fields[propFormed].GetIntValue())
	if text := fields[propAuthor].GetTextValue(); text != "" {
		var err error
		if n.Author, err = tree.ParseID(text); err != nil {
			return n, fmt.Errorf("node %s: author: %w", n.ID, err)
		}
	}
	for _, text := range fields[propChildren].GetListValue().GetTextValues().GetValues() {
		id, err := tree.ParseID(text)
		if err != nil {
			return n, fmt.Errorf("node %s: child: %w", n.ID, err)
		}
		n.Children = append(n.Children, id)
	}
	n.Source, n.Path = fields[propSource].GetTextValue(), fields[propPath].GetTextValue()
	n.Updated = fields[propUpdated].GetIntValue()
	if with.Text {
		n.Text, n.Context = fields[propText].GetTextValue(), fields[propContext].GetTextValue()
	}
	if with.Metadata && n.IsLeaf() {
		n.Metadata = decodeMetadata(fields)
	}
	if with.Vector {
		raw := r.GetMetadata().GetVectorBytes()
		if len(raw) != 4*c.width {
			return n, fmt.Errorf("node %s has a vector of %d values where the corpus has %d: another program wrote it; put it again", n.ID, len(raw)/4, c.width)
		}
		n.Vector = make([]float32, c.width)
		for i := range n.Vector {
			n.Vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return n, nil
}

func resultID(r *pb.SearchResult) tree.ID {
	var id tree.ID
	if raw := r.GetMetadata().GetIdAsBytes(); len(raw) == len(id) {
		copy(id[:], raw)
		return id
	}
	id, err := tree.ParseID(r.GetMetadata().GetId())
	if err != nil {
		return tree.ID{}
	}
	return id
}

// decodeMetadata returns the caller's metadata, nil if there is none.
func decodeMetadata(fields map[string]*pb.Value) tree.Metadata {
	var out tree.Metadata
	exact := map[string]any{}
	for name, field := range fields {
		key, k, ok := metadataKey(name)
		if !ok {
			continue
		}
		value := decodeValue(field)
		if value == nil {
			continue
		}
		if k.exact() {
			exact[key] = decodeDigits(value)
			continue
		}
		if out == nil {
			out = tree.Metadata{}
		}
		out[key] = tree.Canonical(value)
	}
	for key, value := range exact {
		if value != nil && out[key] != nil {
			out[key] = value
		}
	}
	return out
}

// decodeDigits returns the whole numbers that texts stand for, nil if another program wrote something else.
func decodeDigits(value any) any {
	switch v := value.(type) {
	case string:
		if n, err := tree.Number(v); err == nil {
			return n
		}
	case []string:
		list := make([]any, len(v))
		for i, digits := range v {
			n, err := tree.Number(digits)
			if err != nil {
				return nil
			}
			list[i] = n
		}
		if numbers, err := tree.List(list); err == nil {
			return numbers
		}
	}
	return nil
}

// decodeValue returns a property's value, nil for none.
func decodeValue(v *pb.Value) any {
	switch kind := v.GetKind().(type) {
	case *pb.Value_TextValue:
		return kind.TextValue
	case *pb.Value_NumberValue:
		return kind.NumberValue
	case *pb.Value_BoolValue:
		return kind.BoolValue
	case *pb.Value_ListValue:
		switch list := kind.ListValue.GetKind().(type) {
		case *pb.ListValue_TextValues:
			return append([]string{}, list.TextValues.GetValues()...)
		case *pb.ListValue_BoolValues:
			return append([]bool{}, list.BoolValues.GetValues()...)
		case *pb.ListValue_NumberValues:
			raw := list.NumberValues.GetValues()
			values := make([]float64, len(raw)/8)
			for i := range values {
				values[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
			}
			return values
		}
	}
	return nil
}
