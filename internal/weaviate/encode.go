package weaviate

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/aerie-rag/aerie/internal/tree"
)

// encode returns a node as an object for a batch, and about how many bytes it takes.
func (s *Store) encode(c *collection, n *tree.Node) (*pb.BatchObject, int) {
	fields := map[string]*structpb.Value{
		propText: text(n.Text), propDocument: text(n.DocumentID), propChunk: number(n.ChunkIndex), propLevel: number(n.Level),
		propTokens: number(n.Tokens), propBorn: number(n.Born), propDied: number(n.Died), propLeaves: number(n.NLeaves),
	}
	size := 300 + len(n.Text) + len(n.DocumentID) + 4*len(n.Vector)
	optional := func(name, value string) {
		if value != "" {
			fields[name] = text(value)
			size += len(name) + len(value) + 8
		}
	}
	optional(propCluster, n.ClusterID())
	optional(propScope, string(n.Scope))
	optional(propRecipe, n.Recipe)
	if n.Carried() {
		optional(propAuthor, n.Author.String())
	}
	for name, v := range map[string]int{propUnseen: n.Unseen, propFormed: n.Formed, propUpdated: int(n.Updated)} {
		if v > 0 {
			fields[name] = number(v)
		}
	}
	optional(propSource, n.Source)
	optional(propPath, n.Path)
	optional(propContext, n.Context)
	optional(propWords, missedWords(n))
	p := &pb.BatchObject_Properties{NonRefProperties: &structpb.Struct{Fields: fields}}
	if len(n.Children) > 0 {
		ids := make([]string, len(n.Children))
		for i, id := range n.Children {
			ids[i] = id.String()
		}
		p.TextArrayProperties = append(p.TextArrayProperties, &pb.TextArrayProperties{PropName: propChildren, Values: ids})
		size += 40 * len(ids)
	}
	if n.IsLeaf() {
		size += encodeMetadata(c, n.Metadata, p)
	}
	if s.cfg.compat(Helix) {
		optional(propChunkLevel, strconv.Itoa(n.Level))
		optional(propRaptor, map[bool]string{true: "leaf", false: "summary"}[n.IsLeaf()])
		optional(propHelixKids, joinIDs(n.Children))
	}
	if s.cfg.compat(LlamaIndex) {
		optional(propNodeJSON, nodeContent(n))
		optional(propNodeType, "TextNode")
		optional(propDocID, n.DocumentID)
		optional(propRefDocID, n.DocumentID)
	}
	return &pb.BatchObject{
		Uuid: n.ID.String(), Collection: c.name, Tenant: s.cfg.Tenant, VectorBytes: vectorBytes(n.Vector), Properties: p,
	}, size
}

// encodeMetadata adds metadata to an object's properties, and returns about how many bytes it takes.
func encodeMetadata(c *collection, metadata map[string]any, p *pb.BatchObject_Properties) int {
	size := 0
	for key, value := range metadata {
		kinds := kindsOf(value)
		name, _ := c.metadataName(key, kinds[0])
		size += len(name) + 16
		digits := ""
		if len(kinds) > 1 {
			digits, _ = c.metadataName(key, kinds[1])
			size += len(digits) + 36
		}
		switch v := value.(type) {
		case string:
			p.NonRefProperties.Fields[name] = text(v)
			size += len(v)
		case float64:
			p.NonRefProperties.Fields[name] = structpb.NewNumberValue(v)
		case int64:
			p.NonRefProperties.Fields[name] = structpb.NewNumberValue(float64(v))
			p.NonRefProperties.Fields[digits] = text(strconv.FormatInt(v, 10))
		case []int64:
			near, exact := make([]float64, len(v)), make([]string, len(v))
			for i, x := range v {
				near[i], exact[i] = float64(x), strconv.FormatInt(x, 10)
			}
			p.NumberArrayProperties = append(p.NumberArrayProperties, &pb.NumberArrayProperties{PropName: name, ValuesBytes: numberBytes(near)})
			p.TextArrayProperties = append(p.TextArrayProperties, &pb.TextArrayProperties{PropName: digits, Values: exact})
			size += 28 * len(v)
		case bool:
			p.NonRefProperties.Fields[name] = structpb.NewBoolValue(v)
		case []string:
			p.TextArrayProperties = append(p.TextArrayProperties, &pb.TextArrayProperties{PropName: name, Values: v})
			for _, element := range v {
				size += len(element) + 4
			}
		case []float64:
			p.NumberArrayProperties = append(p.NumberArrayProperties, &pb.NumberArrayProperties{PropName: name, ValuesBytes: numberBytes(v)})
			size += 8 * len(v)
		case []bool:
			p.BooleanArrayProperties = append(p.BooleanArrayProperties, &pb.BooleanArrayProperties{PropName: name, Values: v})
			size += len(v)
		}
	}
	return size
}

func text(s string) *structpb.Value { return structpb.NewStringValue(s) }

func number(v int) *structpb.Value { return structpb.NewNumberValue(float64(v)) }

// vectorBytes returns a vector as the server wants it: float32, little-endian.
func vectorBytes(v []float32) []byte {
	out := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(x))
	}
	return out
}

func numberBytes(v []float64) []byte {
	out := make([]byte, 8*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint64(out[8*i:], math.Float64bits(x))
	}
	return out
}

func joinIDs(ids []tree.ID) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(id.String())
	}
	return b.String()
}

// nodeContent returns the JSON of LlamaIndex's TextNode for a node. Its vector stores take the text from the object's
// own property and everything else from here.
func nodeContent(n *tree.Node) string {
	metadata := map[string]any{
		propDocument: n.DocumentID, propLevel: n.Level, propChunk: n.ChunkIndex,
	}
	if !n.IsLeaf() {
		delete(metadata, propChunk)
		metadata[propCluster] = n.ClusterID()
	}
	for key, value := range n.Metadata {
		metadata[key] = value
	}
	// "1" is LlamaIndex's number for the source of a node, and "4" for a document.
	source := map[string]any{"node_id": n.DocumentID, "node_type": "4", "metadata": map[string]any{}, "hash": nil, "class_name": "RelatedNodeInfo"}
	content := map[string]any{
		"id_": n.ID.String(), "embedding": nil, "metadata": metadata, "text": "", "mimetype": "text/plain",
		"excluded_embed_metadata_keys": []string{}, "excluded_llm_metadata_keys": []string{},
		"relationships":     map[string]any{"1": source},
		"start_char_idx":    nil,
		"end_char_idx":      nil,
		"text_template":     "{metadata_str}\n\n{content}",
		"metadata_template": "{key}: {value}", "metadata_seperator": "\n",
		"class_name": "TextNode",
	}
	out, err := json.Marshal(content)
	if err != nil {
		panic(err) // metadata has been checked
	}
	return string(out)
}
