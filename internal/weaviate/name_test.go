package weaviate

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCollectionNames(t *testing.T) {
	for corpus, want := range map[string]string{
		"default": "Aerie_default", "my_docs-2": "Aerie_my__docs_x2d2", "MyDocs": "Aerie__umy_udocs", "é": "Aerie__xc3_xa9", "9": "Aerie_9",
	} {
		if got, err := CollectionName("Aerie", corpus); err != nil || got != want {
			t.Errorf("CollectionName(%q) = %q, %v; want %q", corpus, got, err, want)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 250), strings.Repeat("-", 64)} {
		if got, err := CollectionName("Aerie", bad); err == nil {
			t.Errorf("CollectionName(%q) = %q, want an error", bad, got)
		}
	}
	for _, foreign := range []string{"Aerie", "Aerie_", "Other_default", "Aerie_a_", "Aerie_a_x2", "Aerie_a_xZZ", "Aerie_A", "Aerie_a_x61", "Aerie_a_q"} {
		if corpus, ok := corpusName("Aerie", foreign); ok {
			t.Errorf("corpusName(%q) = %q, want none", foreign, corpus)
		}
	}
}

// corpusName returns the corpus whose collection has this name, and whether there can be one.
func corpusName(prefix, collection string) (string, bool) {
	escaped, ok := strings.CutPrefix(collection, prefix+"_")
	if !ok || escaped == "" {
		return "", false
	}
	return unescape(escaped)
}

// Weaviate takes names for equal that differ in case only.
func TestNamesAreReversibleAndNeverCollide(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Z][_0-9A-Za-z]{0,254}$`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringMatching(`[A-Za-z0-9_\-.é]{1,20}`).Draw(t, "a"), rapid.String().Filter(func(s string) bool { return s != "" && len(s) < 50 }).Draw(t, "b")
		nameA, errA := CollectionName("Aerie", a)
		nameB, errB := CollectionName("Aerie", b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if !valid.MatchString(nameA) || !valid.MatchString(nameB) {
			t.Fatalf("%q or %q is no name of a class", nameA, nameB)
		}
		if back, ok := corpusName("Aerie", nameB); !ok || back != b {
			t.Fatalf("corpusName(%q) = %q, %t; want %q", nameB, back, ok, b)
		}
		if a != b && strings.EqualFold(nameA, nameB) {
			t.Fatalf("%q and %q are %q and %q, which Weaviate takes for the same", a, b, nameA, nameB)
		}
	})
}

func TestPropertyNames(t *testing.T) {
	for key, plain := range map[string]bool{
		"author": true, "pageCount": true, "x_1": true, "Author": false, "_x": false, "9": false, "a-b": false, "": false, "é": false,
		"text": false, "born": false, "id": false, "vector": false, "words": false, "_node_content": false, "meta_x": false, "untrimmed": false,
	} {
		if isPlain(key) != plain {
			t.Errorf("isPlain(%q) = %t", key, !plain)
		}
	}
	for key, want := range map[string]string{"text": "meta_text_text", "Page Count": "meta_text__upage_x20_ucount", "": "meta_text_"} {
		if got := escapedName(key, kindText); got != want {
			t.Errorf("escapedName(%q) = %q, want %q", key, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		for k := range dataTypes {
			if back, _, ok := metadataKey(escapedName(key, k)); !ok || back != key {
				t.Fatalf("the key of %q is %q, %t; want %q", escapedName(key, k), back, ok, key)
			}
		}
		if isPlain(key) {
			if back, _, ok := metadataKey(key); !ok || back != key {
				t.Fatalf("the key of property %q is %q, %t", key, back, ok)
			}
		}
	})
	for _, own := range []string{"text", "words", "raptor_child_ids", "_node_content", "children", "meta_nothing", "meta_colour_x", "meta_text__q"} {
		if key, _, ok := metadataKey(own); ok {
			t.Errorf("property %q is said to hold metadata %q", own, key)
		}
	}
}
