//go:build stack

package weaviate_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
)

// TestC12OldWordsAreMadeAgain: a collection that was filled under older rules of what a word is gets the words of today with the first
// keyword search, all of them, and is not gone through again.
func TestC12OldWordsAreMadeAgain(t *testing.T) {
	s := connect(t, weaviate.Config{})
	put(t, s, "oldwords", leaf("d", 0, "x"))
	remake(t, s, "oldwords", "_words_2")
	writer := connect(t, weaviate.Config{})
	var nodes []tree.Node
	for i := range 1200 { // more than one round of changes
		nodes = append(nodes, leaf("d", i, fmt.Sprintf("café C++ number%d", i)))
	}
	put(t, writer, "oldwords", nodes...)
	for _, n := range []tree.Node{nodes[0], nodes[700]} { // as if the older rules had known other words
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+"/v1/objects/Aerie_oldwords/"+n.ID.String(),
			strings.NewReader(`{"class": "Aerie_oldwords", "properties": {"words": "other"}}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		reply, err := http.DefaultClient.Do(request)
		if err != nil || reply.StatusCode != http.StatusNoContent {
			t.Fatal(reply, err)
		}
		reply.Body.Close()
	}
	same(t, "words before", object(t, "Aerie_oldwords", nodes[700].ID)["words"], any("other"))
	for _, query := range []string{"cafe", "C++", "CAFÉ"} {
		hits, err := connect(t, weaviate.Config{}).Keyword(t.Context(), "oldwords", store.Query{Text: query, Limit: 2000, Filter: store.AnyLevel()})
		if err != nil || len(hits) != len(nodes) {
			t.Fatalf("%s: %d hits, want %d: %v", query, len(hits), len(nodes), err)
		}
	}
	same(t, "words after", object(t, "Aerie_oldwords", nodes[700].ID)["words"], object(t, "Aerie_oldwords", nodes[1].ID)["words"])
	var class struct{ Properties []struct{ Name string } }
	getJSON(t, "/v1/schema/Aerie_oldwords", &class)
	marked := false
	for _, p := range class.Properties {
		marked = marked || p.Name == "_words_2"
	}
	if !marked {
		t.Error("the collection isn't marked, so every search would go through it again")
	}
}
