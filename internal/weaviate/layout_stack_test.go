//go:build stack

package weaviate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
)

var allFields = store.Fields{Text: true, Vector: true, Metadata: true}

// leaf returns a leaf of the corpus "c" with one of four directions as its vector.
func leaf(document string, index int, text string) tree.Node {
	v := make([]float32, 4)
	v[index%4] = 1
	return tree.Node{
		ID: tree.LeafID("c", document, index, text), DocumentID: document, ChunkIndex: index, Text: text, Tokens: 3, NLeaves: 1,
		Died: tree.Alive, Vector: v,
	}
}

func put(t *testing.T, s store.Store, corpus string, nodes ...tree.Node) {
	t.Helper()
	if err := s.Put(t.Context(), corpus, nodes); err != nil {
		t.Fatal(err)
	}
}

func each(t *testing.T, s store.Store, corpus string, f store.Filter) []tree.Node {
	t.Helper()
	var nodes []tree.Node
	err := s.Each(t.Context(), corpus, f, allFields, func(n *tree.Node) error { nodes = append(nodes, *n); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func count(t *testing.T, s store.Store, corpus string, f store.Filter) int {
	t.Helper()
	n, err := s.Count(t.Context(), corpus, f)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// object reads an object as other programs see it.
func object(t *testing.T, class string, id tree.ID) map[string]any {
	t.Helper()
	var out struct {
		Properties map[string]any `json:"properties"`
	}
	getJSON(t, "/v1/objects/"+class+"/"+id.String()+"?include=vector", &out)
	return out.Properties
}

func getJSON(t *testing.T, path string, into any) {
	t.Helper()
	reply, err := http.Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, reply.Status)
	}
	if err := json.NewDecoder(reply.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// Names and values that other programs read are those of the package comment.
func TestObjectAsOthersSeeIt(t *testing.T) {
	s := connect(t, weaviate.Config{})
	a := leaf("guide.md", 2, "Some text.")
	a.Metadata = map[string]any{"author": "Ann", "pageCount": 7.5}
	sum := tree.Node{
		ID: tree.ID{0xab, 0xcd, 0xef, 1, 5}, Level: 2, DocumentID: tree.CorpusTree, ChunkIndex: -1, Scope: tree.ScopeCorpus,
		Children: []tree.ID{a.ID}, Text: "A summary.", Tokens: 2, NLeaves: 9, Recipe: "r1", Born: 3, Died: tree.Alive, Vector: []float32{0, 1, 0, 0},
	}
	put(t, s, "Others-see", a, sum)
	const class = "Aerie__uothers_x2dsee"
	same(t, "leaf", object(t, class, a.ID), map[string]any{
		"text": "Some text.", "document_id": "guide.md", "chunk_index": 2.0, "raptor_level": 0.0, "tokens": 3.0, "born": 0.0,
		"died": float64(tree.Alive), "n_leaves": 1.0, "author": "Ann", "pageCount": 7.5,
	})
	same(t, "summary", object(t, class, sum.ID), map[string]any{
		"text": "A summary.", "document_id": "raptor://corpus-tree", "chunk_index": -1.0, "raptor_level": 2.0, "tokens": 2.0, "born": 3.0,
		"died": float64(tree.Alive), "n_leaves": 9.0, "scope": "corpus", "recipe": "r1", "raptor_cluster_id": "L2-abcdef01",
		"raptor_child_ids": []any{a.ID.String()},
	})
}

func TestCompat(t *testing.T) {
	s := connect(t, weaviate.Config{Compat: []string{weaviate.Helix, weaviate.LlamaIndex}})
	a, b := leaf("d", 0, "a"), leaf("d", 1, "b")
	a.Metadata = map[string]any{"children": "of the caller", "doc_id": 3.0}
	sum := tree.Node{
		ID: tree.ID{5}, Level: 1, DocumentID: tree.CorpusTree, ChunkIndex: -1, Children: []tree.ID{a.ID, b.ID}, Text: "s", Died: tree.Alive, Vector: []float32{1, 1, 0, 0},
	}
	put(t, s, "compat", a, b, sum)
	same(t, "nodes", each(t, s, "compat", store.Leaves()), []tree.Node{a, b})
	props := object(t, "Aerie_compat", sum.ID)
	for name, want := range map[string]string{
		"chunk_level": "1", "raptor": "summary", "children": a.ID.String() + "," + b.ID.String(), "_node_type": "TextNode",
		"doc_id": tree.CorpusTree, "ref_doc_id": tree.CorpusTree,
	} {
		same(t, name+" of the summary", props[name], any(want))
	}
	props = object(t, "Aerie_compat", a.ID)
	for name, want := range map[string]any{"chunk_level": "0", "raptor": "leaf", "meta_text_children": "of the caller", "meta_number_doc__id": 3.0} {
		same(t, name+" of the leaf", props[name], want)
	}
	var content struct {
		ID       string         `json:"id_"`
		Metadata map[string]any `json:"metadata"`
		Class    string         `json:"class_name"`
	}
	if err := json.Unmarshal([]byte(props["_node_content"].(string)), &content); err != nil {
		t.Fatal(err)
	}
	same(t, "id of the node's content", content.ID, a.ID.String())
	same(t, "class of the node's content", content.Class, "TextNode")
	same(t, "metadata of the node's content", content.Metadata["children"], any("of the caller"))
}

func TestSchema(t *testing.T) {
	s := connect(t, weaviate.Config{})
	n := leaf("d", 0, "x")
	n.Metadata = map[string]any{"k": "v"}
	put(t, s, "schema", n)
	var class struct {
		VectorIndexConfig struct{ Distance string }
		Vectorizer        string
		Properties        []struct {
			Name, Tokenization                                  string
			DataType                                            []string
			IndexFilterable, IndexSearchable, IndexRangeFilters bool
		}
		InvertedIndexConfig struct{ Stopwords struct{ Preset string } }
	}
	getJSON(t, "/v1/schema/Aerie_schema", &class)
	same(t, "distance", class.VectorIndexConfig.Distance, "cosine")
	same(t, "vectorizer", class.Vectorizer, "none")
	same(t, "stopwords", class.InvertedIndexConfig.Stopwords.Preset, "none")
	got := map[string]string{}
	for _, p := range class.Properties {
		got[p.Name] = strings.TrimSpace(fmt.Sprintf("%s %s", p.DataType[0], p.Tokenization))
		for _, index := range []struct {
			on   bool
			name string
		}{{p.IndexFilterable, "equal"}, {p.IndexSearchable, "words"}, {p.IndexRangeFilters, "range"}} {
			if index.on {
				got[p.Name] += " " + index.name
			}
		}
	}
	same(t, "properties", got, map[string]string{
		"_words_2": "boolean", "text": "text word words", "document_id": "text field equal", "chunk_index": "int equal", "raptor_level": "int equal",
		"raptor_cluster_id": "text field equal", "raptor_child_ids": "text[] field equal", "scope": "text field equal", "tokens": "int",
		"born": "int range", "died": "int range", "recipe": "text field equal", "n_leaves": "int", "k": "text field equal",
		"raptor_author": "text field equal", "raptor_unseen_tokens": "int", "raptor_formed_tokens": "int",
		"raptor_source": "text field equal", "raptor_path": "text field equal", "raptor_context": "text field", "raptor_updated": "int",
	})
}

// Each key comes back as it was, whatever property it had to be put under, and can be filtered by.
func TestMetadataKeysOfAllKinds(t *testing.T) {
	s := connect(t, weaviate.Config{})
	var nodes []tree.Node
	for i, metadata := range []map[string]any{
		{"page": 3.0}, {"page": "iii"}, {"page": []string{"3", "iii"}}, {"page": []float64{3, 4}}, {"page": true}, {"page": []bool{false}},
		{"Page": "capital"}, {"PAGE": 3.0}, {"text": "own name"}, {"id": "reserved"}, {"_additional": "reserved"}, {"meta_text_x": "prefix"},
		{"author name": "space"}, {"日期": "2024"}, {"": "no name"}, {"a.b-c/d": 1.0}, {"9lives": "digit"}, {"vector": []float64{1}}, {"untrimmed": true},
		{"empty": []string{}}, {"empty numbers": []float64{}}, {"blank": ""}, {"deep_Key_x": "y"}, {"n": -0.5e-300}, {"big": 1.7e308}, {"_node_content": "{}"},
	} {
		n := leaf("d", i, fmt.Sprint("leaf ", i))
		n.Metadata = metadata
		nodes = append(nodes, n)
	}
	for _, n := range nodes[:10] { // one by one, as they come
		put(t, s, "metadata", n)
	}
	put(t, s, "metadata", nodes[10:]...)
	for i := range nodes {
		if _, ok := nodes[i].Metadata["empty numbers"]; ok { // an empty list has no kind
			nodes[i].Metadata = tree.Metadata{"empty numbers": []string{}}
		}
	}
	same(t, "nodes", each(t, s, "metadata", store.Leaves()), nodes)
	for _, n := range nodes {
		for key, v := range n.Metadata {
			if key == "" { // kept, and asked for by no condition: those name their key
				continue
			}
			for _, want := range elements(v) {
				f := store.AnyLevel()
				f.Metadata = map[string]any{key: want}
				var expected []tree.Node
				for _, m := range nodes {
					if f.Selects(&m) {
						expected = append(expected, m)
					}
				}
				same(t, fmt.Sprintf("Each with %q = %#v", key, want), each(t, s, "metadata", f), expected)
				same(t, fmt.Sprintf("Count with %q = %#v", key, want), count(t, s, "metadata", f), len(expected))
				hits, err := s.Search(t.Context(), "metadata", store.Query{Vector: n.Vector, Limit: 100, Filter: f})
				if err != nil || len(hits) != len(expected) {
					t.Errorf("Search with %q = %#v: %d hits, %v; want %d", key, want, len(hits), err, len(expected))
				}
			}
		}
	}
}

func elements(v any) []any {
	var out []any
	switch v := v.(type) {
	case []string:
		for _, x := range v {
			out = append(out, x)
		}
	case []float64:
		for _, x := range v {
			out = append(out, x)
		}
	case []bool:
		for _, x := range v {
			out = append(out, x)
		}
	default:
		out = append(out, v)
	}
	return out
}

// The server's index of keys leaves out white space at the ends; answers must not.
func TestKeysWithSpaceAtTheirEnds(t *testing.T) {
	s := connect(t, weaviate.Config{})
	var nodes []tree.Node
	for i, document := range []string{"", " ", " a", "a ", "a", "\ta\n", "a b"} {
		n := leaf(document, 0, fmt.Sprint("word ", i))
		n.Metadata = map[string]any{"key": document}
		nodes = append(nodes, n)
	}
	put(t, s, "space", nodes[4]) // before the corpus has such keys
	same(t, "count before", count(t, s, "space", store.AnyLevel().OfDocument("a")), 1)
	put(t, s, "space", nodes...)
	for _, n := range nodes {
		byKey := store.AnyLevel()
		byKey.Metadata = map[string]any{"key": n.DocumentID}
		for _, f := range []store.Filter{store.AnyLevel().OfDocument(n.DocumentID), byKey} {
			same(t, fmt.Sprintf("Each of %q", n.DocumentID), each(t, s, "space", f), []tree.Node{n})
			same(t, fmt.Sprintf("Count of %q", n.DocumentID), count(t, s, "space", f), 1)
			for _, limit := range []int{1, 50} {
				hits, err := s.Search(t.Context(), "space", store.Query{Vector: []float32{1, 1, 1, 1}, Limit: limit, Filter: f})
				if err != nil || len(hits) != 1 || hits[0].Node.ID != n.ID {
					t.Errorf("Search of %q: %v, %v", n.DocumentID, hits, err)
				}
				hits, err = s.Keyword(t.Context(), "space", store.Query{Text: "word", Limit: limit, Filter: f})
				if err != nil || len(hits) != 1 || hits[0].Node.ID != n.ID {
					t.Errorf("Keyword of %q: %v, %v", n.DocumentID, hits, err)
				}
			}
		}
	}
}

func TestUnknownKeysAreRefusedWithTheKnown(t *testing.T) {
	for name, cfg := range map[string]weaviate.Config{
		"listed": {Metadata: []string{"title", "author"}},
		"full":   {MaxMetadata: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, cfg)
			good, bad := leaf("d", 0, "good"), leaf("d", 1, "bad")
			good.Metadata = map[string]any{"title": "T", "author": "A"}
			put(t, s, "unknown-"+name, good)
			bad.Metadata = map[string]any{"title": "T", "colour": "red"}
			err := s.Put(t.Context(), "unknown-"+name, []tree.Node{bad, good})
			var putErr *store.PutError
			if !errors.As(err, &putErr) || len(putErr.Failed) != 1 || !errors.Is(putErr.Failed[bad.ID], store.ErrInvalid) {
				t.Fatalf("Put: %v, want ErrInvalid for one node", err)
			}
			if text := err.Error(); !strings.Contains(text, `"colour"`) || !strings.Contains(text, "known are author, title") {
				t.Errorf("the error doesn't name the key and the known ones: %v", err)
			}
			same(t, "nodes", each(t, s, "unknown-"+name, store.AnyLevel()), []tree.Node{good})
		})
	}
}

func TestKeysAndTextsOfAnySize(t *testing.T) {
	s := connect(t, weaviate.Config{})
	big := strings.Repeat("x", 300_000)
	a, b, c := leaf("d", 0, big), leaf(strings.Repeat("d", 40_000), 1, "long document id"), leaf("d", 2, strings.Repeat("Straße ", 50_000))
	a.Metadata = map[string]any{"abstract": big}
	put(t, s, "size", a, b, c)
	same(t, "nodes", each(t, s, "size", store.AnyLevel()), []tree.Node{a, c, b})
	f := store.AnyLevel()
	f.Metadata = map[string]any{"abstract": big}
	same(t, "count", count(t, s, "size", f), 1)
	same(t, "of the long document", count(t, s, "size", store.AnyLevel().OfDocument(b.DocumentID)), 1)
	long := leaf("d", 3, "key")
	long.Metadata = map[string]any{strings.Repeat("k", 300): "v"}
	if err := s.Put(t.Context(), "size", []tree.Node{long}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Put of a key of 300 characters: %v, want ErrInvalid", err)
	}
	invalid := leaf("d", 4, "not \xff UTF-8")
	if err := s.Put(t.Context(), "size", []tree.Node{invalid}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Put of a text that isn't UTF-8: %v, want ErrInvalid", err)
	}
}

// weaviate/weaviate#4499 and its like: the server takes objects without a vector. They must not pass for nodes.
func TestWeaviate4499ObjectsWithoutAVectorAreErrors(t *testing.T) {
	s := connect(t, weaviate.Config{})
	put(t, s, "vectorless", leaf("d", 0, "a"))
	id := tree.ID{7}
	body := fmt.Sprintf(`{"class": "Aerie_vectorless", "id": %q, "properties": {"text": "b", "document_id": "d", "raptor_level": 0, "died": 5}}`, id)
	reply, err := http.Post(server.URL+"/v1/objects", "application/json", strings.NewReader(body))
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatal(reply, err)
	}
	reply.Body.Close()
	err = s.Each(t.Context(), "vectorless", store.AnyLevel(), allFields, func(*tree.Node) error { return nil })
	if err == nil || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("Each with vectors: %v, want an error that names %s", err, id)
	}
	if _, err := s.Get(t.Context(), "vectorless", []tree.ID{id}, allFields); err == nil || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("Get with vectors: %v, want an error that names %s", err, id)
	}
}

func TestForeignCollectionIsLeftAlone(t *testing.T) {
	body := `{"class": "Aerie_foreign", "vectorizer": "none", "properties": [{"name": "text", "dataType": ["text"]}]}`
	reply, err := http.Post(server.URL+"/v1/schema", "application/json", strings.NewReader(body))
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatal(reply, err)
	}
	reply.Body.Close()
	s := connect(t, weaviate.Config{})
	_, countErr := s.Count(t.Context(), "foreign", store.AnyLevel())
	for what, err := range map[string]error{
		"Put":   s.Put(t.Context(), "foreign", []tree.Node{leaf("d", 0, "a")}),
		"Count": countErr,
		"Drop":  s.Drop(t.Context(), "foreign"),
	} {
		if !errors.Is(err, weaviate.ErrForeign) || !strings.Contains(err.Error(), "Aerie_foreign") {
			t.Errorf("%s: %v, want ErrForeign with the collection's name", what, err)
		}
	}
	getJSON(t, "/v1/schema/Aerie_foreign", &struct{}{})
}

// infiniflow/ragflow#14997: a store from before a property was there failed every write.
func TestRagflow14997OlderCollectionGetsWhatItLacks(t *testing.T) {
	body := `{"class": "Aerie_older", "vectorizer": "none", "vectorIndexConfig": {"distance": "cosine"},
		"description": "{\"aerie\":1,\"corpus\":\"older\",\"width\":4}", "properties": [{"name": "text", "dataType": ["text"]}]}`
	reply, err := http.Post(server.URL+"/v1/schema", "application/json", strings.NewReader(body))
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatal(reply, err)
	}
	reply.Body.Close()
	s := connect(t, weaviate.Config{Compat: []string{weaviate.Helix}})
	n := leaf("d", 0, "a")
	put(t, s, "older", n)
	same(t, "nodes", each(t, s, "older", store.AnyLevel().OfDocument("d")), []tree.Node{n})
	same(t, "chunk_level", object(t, "Aerie_older", n.ID)["chunk_level"], any("0"))
}

// remake drops a corpus's collection and makes it anew without some properties, as an older aerie would have.
func remake(t *testing.T, s *weaviate.Store, corpus string, without ...string) {
	t.Helper()
	var class map[string]any
	getJSON(t, "/v1/schema/Aerie_"+corpus, &class)
	if err := s.Drop(t.Context(), corpus); err != nil {
		t.Fatal(err)
	}
	class["properties"] = slices.DeleteFunc(class["properties"].([]any), func(p any) bool {
		return slices.Contains(without, p.(map[string]any)["name"].(string))
	})
	body, err := json.Marshal(class)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.Post(server.URL+"/v1/schema", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		t.Fatalf("the old collection was not made: %s", reply.Status)
	}
}

// TestOldCollection: a collection of an older aerie gets what it lacks when it is first looked at.
func TestOldCollection(t *testing.T) {
	s := connect(t, weaviate.Config{})
	n := leaf("d", 0, "x")
	put(t, s, "old", n)
	remake(t, s, "old", "raptor_author", "raptor_unseen_tokens", "raptor_formed_tokens")
	reader, writer := connect(t, weaviate.Config{}), connect(t, weaviate.Config{})
	if got, err := reader.Count(t.Context(), "old", store.AnyLevel()); err != nil || got != 0 {
		t.Fatalf("%d nodes, %v", got, err)
	}
	carried := n
	carried.ID, carried.Level, carried.Author, carried.Unseen, carried.Formed = tree.ID{7}, 1, tree.ID{8}, 9, 10
	put(t, writer, "old", n, carried)
	got, err := reader.Get(t.Context(), "old", []tree.ID{carried.ID}, store.Fields{})
	if err != nil || len(got) != 1 || got[0].Author != carried.Author || got[0].Unseen != 9 || got[0].Formed != 10 {
		t.Errorf("%+v, %v", got, err)
	}
}
