package sqlite

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestSegment(t *testing.T) {
	for _, test := range []struct{ text, index, query string }{
		{"", "", ""},
		{" \t\n?!", "", ""},
		{"The cat's hat, v3.14!", "the cat s hat v3 14", "the cat s hat v3 14"},
		{"asyncio.gather(foo_bar)", "asyncio gather foo bar", "asyncio gather foo bar"},
		{"Straße ＡＢＣ ﬁne Ⅳ", "strasse abc fine iv", "strasse abc fine iv"},
		{"naïve nai\u0308ve", "naïve naïve", "naïve naïve"},
		{"肺癌", "肺 癌 肺癌", "肺癌"},
		{"癌", "癌", "癌"},
		{"肺癌症。咳", "肺 癌 肺癌 症 癌症 咳", "肺癌 癌症 咳"},
		{"用Rust写", "用 rust 写", "用 rust 写"},
		{"ｶﾀｶﾅ", "カ タ カタ カ タカ ナ カナ", "カタ タカ カナ"},
		{"猫です", "猫 で 猫で す です", "猫で です"},
		{"ที่นี่", "ที่ นี่ ที่นี่", "ที่นี่"},
		{"한국어", "한 국 한국 어 국어", "한국 국어"},
		{"हिन्दी में", "हिन्दी में", "हिन्दी में"},
		{"e\u0301\u0301", "é\u0301", "é\u0301"},
		{"\u0301alone", "\u0301alone", "\u0301alone"},
	} {
		if d := cmp.Diff(test.index, strings.TrimSpace(segment(test.text, false))); d != "" {
			t.Errorf("index of %q (-want +got):\n%s", test.text, d)
		}
		if d := cmp.Diff(test.query, strings.TrimSpace(segment(test.text, true))); d != "" {
			t.Errorf("query of %q (-want +got):\n%s", test.text, d)
		}
	}
}

// Plain ASCII takes a shorter way, to the same words.
func TestSegmentASCIIAgrees(t *testing.T) {
	for _, text := range []string{
		"Hello, World 42", "a-b_c.d/e\\f", "\x00\x01 x\x7f", "ALL CAPS", strings.Repeat("ab1", 200), strings.Repeat("x", 96), "tail ",
	} {
		long := strings.Split(segment(text+" é", false), " ")
		if d := cmp.Diff(long[:len(long)-1], strings.Split(segment(text, false), " ")); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

func TestQueryWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                       nil,
		"?":                      nil,
		`a OR "b" NOT a NEAR`:    {"a", "or", "b", "not", "near"},
		"肺癌 cancer 肺癌":           {"肺癌", "cancer"},
		`"; DROP TABLE nodes;--`: {"drop", "table", "nodes"},
	} {
		if d := cmp.Diff(want, queryWords(text)); d != "" {
			t.Errorf("words of %q (-want +got):\n%s", text, d)
		}
	}
}

// An index that was fed under other rules is built anew when the home is opened.
func TestOldKeywordIndexIsRenewed(t *testing.T) {
	home := t.TempDir()
	db := open(t, home, Config{})
	nodes := []tree.Node{crashLeaf("d", 0), crashLeaf("d", 1)}
	if err := db.Store().Put(t.Context(), "c", nodes); err != nil {
		t.Fatal(err)
	}
	err := db.write(t.Context(), func(s *session) error { // as if "common" had been no word
		for i, n := range nodes {
			rest := strings.TrimPrefix(segment(n.Text, false), " common")
			for _, query := range []string{
				"INSERT INTO words_1 (words_1, rowid, words) SELECT 'delete', ?1, ?2",
				"INSERT INTO words_1 (rowid, words) SELECT ?1, ?3 WHERE ?2 <> ''",
				"UPDATE nodes SET words = 2 WHERE node = ?1 AND ?2 <> ?3",
			} {
				if err := s.exec(query, 1<<sequenceBits+i, segment(n.Text, false), rest); err != nil {
					return err
				}
			}
		}
		return s.exec("UPDATE collections SET segmenter = 0")
	})
	if err != nil {
		t.Fatal(err)
	}
	search := func(db *DB) int {
		hits, err := db.Store().Keyword(t.Context(), "c", store.Query{Text: "common", Limit: 5, Filter: store.AnyLevel()})
		if err != nil {
			t.Fatal(err)
		}
		return len(hits)
	}
	if n := search(db); n != 0 {
		t.Fatalf("%d hits before, so this test says nothing", n)
	}
	again := open(t, home, Config{})
	if n, m := search(db), search(again); n != 2 || m != 2 {
		t.Errorf("%d hits in the handle that was open, %d in the new one; want 2", n, m)
	}
	checkIntegrity(t, again, "c")
	err = again.read(t.Context(), func(s *session) error {
		table, _, err := again.store.table(s, "c")
		if err == nil && !slices.Equal(table.words, []int32{3, 3}) {
			t.Errorf("numbers of words %v, want 3 each", table.words)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzKeyword puts any text, and finds it by any of its words, whatever they are; no query is an error of the engine.
func FuzzKeyword(f *testing.F) {
	for _, s := range []string{
		"plain words", `"quoted" AND (x OR y) NEAR/3 z*`, "肺癌的早期症状", "ที่นี่ ประเทศไทย", "e\u0301 ﬁ Å \x00 \xff\xfe", "ﷺ ǅ ß İ", "\u0e33", "a\u200db", strings.Repeat("long", 300),
	} {
		f.Add(s)
	}
	db := open(f, f.TempDir(), Config{})
	f.Fuzz(func(t *testing.T, text string) {
		n := crashLeaf("d", 0)
		n.Text = text
		n.ID = tree.LeafID("c", "d", 0, text)
		if err := db.Store().Put(t.Context(), "c", []tree.Node{n}); err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(segment(text, false))
		for _, w := range words {
			if len(w) > maxWordBytes || utf8.ValidString(text) && !utf8.ValidString(w) {
				t.Errorf("word %q", w)
			}
		}
		hits, err := db.Store().Keyword(t.Context(), "c", store.Query{Text: text, Limit: 5, Filter: store.AnyLevel(), With: store.Fields{Text: true}})
		if err != nil {
			t.Fatal(err)
		}
		if found := len(hits) == 1 && hits[0].Node.Text == text; found != (len(words) > 0) {
			t.Errorf("%q with words %q: %d hits", text, words, len(hits))
		}
		if err := db.Store().Delete(t.Context(), "c", []tree.ID{n.ID}); err != nil {
			t.Fatal(err)
		}
		checkIntegrity(t, db, "c")
	})
}
