package sqlite

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/word"
)

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
			rest := strings.TrimPrefix(word.Segment(n.Text, false), " common")
			for _, query := range []string{
				"INSERT INTO words_1 (words_1, rowid, words) SELECT 'delete', ?1, ?2",
				"INSERT INTO words_1 (rowid, words) SELECT ?1, ?3 WHERE ?2 <> ''",
				"UPDATE nodes SET words = 2 WHERE node = ?1 AND ?2 <> ?3",
			} {
				if err := s.exec(query, 1<<sequenceBits+i, word.Segment(n.Text, false), rest); err != nil {
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
		words := strings.Fields(word.Segment(text, false))
		for _, w := range words {
			if len(w) > word.MaxBytes || utf8.ValidString(text) && !utf8.ValidString(w) {
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
