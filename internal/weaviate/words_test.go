package weaviate

import (
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/tree"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestMissedWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"The cat's état-major, 42!": "etat",
		"C++, .NET and v1.2":        "cǂǂ ǀnet v1ǀ2 1ǀ2",
		"It’s “quoted” — plainly":   "",
		"Straße":                    "strasse",
		"m² and ＦＵＬＬ":               "m2 full",
		"肺癌":                        "肺 癌",         // the pair is the whole run, which the server finds
		"所有权 Rust":                  "所 有 所有 权 有权", // and not rust, which the server finds by itself
		"cafe\u0301":                "",            // the server cuts at the mark
		"हिन्दी":                    "हिन्दी",
	} {
		if got := missedWords(&tree.Node{Text: text}); got != want {
			t.Errorf("missedWords(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestQueryWords(t *testing.T) {
	for text, want := range map[string][]string{
		"The cat, THE dog": {"the", "cat", "dog"}, "早期症状": {"早期", "期症", "症状"}, "癌": {"癌"}, "ﾀﾜｰ!": {"タワ", "ー"}, "?!": nil, "": nil,
		"STRASSE Straße": {"strasse"}, "C++ and c#": {"cǂǂ", "and", "cǁ"},
	} {
		if d := cmp.Diff(want, queryWords(text), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("queryWords(%q) (-want +got):\n%s", text, d)
		}
	}
	for words, want := range map[string]bool{"plain": false, "cǂǂ": false, "日本": false, "हिन्दी": true, "a b": true} {
		if torn([]string{words}) != want {
			t.Errorf("torn(%q) = %t", words, !want)
		}
	}
}

// Every word of a query for a text is in the server's index for it: found by the server in the text, or put into words.
func TestTextIsFoundByItsWords(t *testing.T) {
	alphabet := rapid.RuneFrom([]rune("abÄßé² 肺癌ーﾀガ한C+#._&0x1vกิเह्ि\u0301-’İΣς１ﬁ"))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(alphabet, 0, 30, -1).Draw(t, "text")
		index := append(serverWords(text), strings.Fields(missedWords(&tree.Node{Text: text}))...)
		for _, word := range queryWords(text) {
			asked := append(serverWords(word), word) // the query is cut for text, and taken as it is for words
			if !slices.ContainsFunc(asked, func(w string) bool { return slices.Contains(index, w) }) {
				t.Fatalf("%q isn't found by its word %q; the index holds %q", text, word, index)
			}
			if !holdsAny(&tree.Node{Text: text}, []string{word}) {
				t.Fatalf("%q doesn't hold its word %q", text, word)
			}
		}
	})
}
