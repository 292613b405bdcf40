package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// wordHome is a corpus of texts, with what the index must hold computed from the texts alone.
type wordHome struct {
	*testing.T
	db    *DB
	texts map[tree.ID]string
}

// put adds texts to a document, in batches of a size, so that the index gets segments.
func (h *wordHome) put(document string, texts []string, batch int) {
	h.Helper()
	var nodes []tree.Node
	for i, text := range texts {
		n := crashLeaf(document, i)
		n.Text, n.ID = text, tree.LeafID("c", document, i, text)
		nodes = append(nodes, n)
		h.texts[n.ID] = text
	}
	for part := range slices.Chunk(nodes, batch) {
		if err := h.db.Store().Put(h.Context(), "c", part); err != nil {
			h.Fatal(err)
		}
	}
}

func (h *wordHome) delete(share float64, r *rand.Rand) {
	h.Helper()
	var ids []tree.ID
	for _, id := range slices.SortedFunc(maps.Keys(h.texts), tree.ID.Compare) {
		if r.Float64() < share {
			ids = append(ids, id)
			delete(h.texts, id)
		}
	}
	if err := h.db.Store().Delete(h.Context(), "c", ids); err != nil {
		h.Fatal(err)
	}
}

// check compares the postings of words, and the scores of a query, with what the texts give.
func (h *wordHome) check(words []string, query []string) {
	h.Helper()
	counts := map[tree.ID]map[string]int{}
	for id, text := range h.texts {
		counts[id] = map[string]int{}
		for _, w := range strings.Fields(text) {
			counts[id][w]++
		}
	}
	err := h.db.read(h.Context(), func(s *session) error {
		t, c, err := h.db.store.table(s, "c")
		if err != nil {
			return err
		}
		segments, err := s.keywordSegments(c)
		if err != nil {
			return err
		}
		places, err := s.places(c, segments, words)
		if err != nil {
			return err
		}
		for i, w := range words {
			got, want := map[tree.ID]int{}, map[tree.ID]int{}
			err := s.postings(c, segments, places[i], w, func(node int64, times int) {
				if at, ok := t.index(node, 0); ok {
					got[t.ids[at]] += times
				}
			})
			if err != nil {
				return fmt.Errorf("word %q: %w", w, err)
			}
			for id, c := range counts {
				if c[w] > 0 {
					want[id] = c[w]
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				h.Fatalf("postings of %q (-want +got):\n%s", w, d)
			}
		}
		w := h.db.store.scoring(len(t.nodes))
		if err := s.bm25(c, t, query, w); err != nil {
			return err
		}
		want := wantScores(counts, query)
		for i, id := range t.ids {
			if math.Abs(w.scores[i]-want[id]) > 1e-12 { // sums of five numbers below 20, in the same order
				h.Fatalf("%s has score %v, want %v", id, w.scores[i], want[id])
			}
		}
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	checkIntegrity(h.T, h.db, "c")
}

// wantScores is BM25 by its definition.
func wantScores(counts map[tree.ID]map[string]int, query []string) map[tree.ID]float64 {
	lengths, holders, all := map[tree.ID]float64{}, map[string]float64{}, 0.0
	for id, c := range counts {
		for w, n := range c {
			holders[w]++
			lengths[id] += float64(n)
			all += float64(n)
		}
	}
	scores := map[tree.ID]float64{}
	n := float64(len(counts))
	for id, c := range counts {
		for _, w := range query {
			f := float64(c[w])
			idf := math.Log(1 + (n-holders[w]+0.5)/(holders[w]+0.5))
			scores[id] += idf * f * 2.2 / (f + 1.2*(0.25+0.75*lengths[id]/(all/n)))
		}
	}
	return scores
}

// TestPostingsAgainstTexts reads an index of many shapes: several segments, words on many pages, positions that span
// pages, deleted rows, and one that was built anew.
func TestPostingsAgainstTexts(t *testing.T) {
	h := &wordHome{T: t, db: open(t, t.TempDir(), Config{}), texts: map[tree.ID]string{}}
	r := rand.New(rand.NewPCG(4, 4))
	zipf := rand.NewZipf(r, 1.1, 3, 3000)
	draw := func(n int) string {
		var words []string
		for range n {
			words = append(words, fmt.Sprintf("w%d", zipf.Uint64()))
		}
		return strings.Join(words, " ")
	}
	var words []string
	for i := range 40 {
		words = append(words, fmt.Sprintf("w%d", i*i))
	}
	words = append(words, "long", "none", "w", "zzz", "0")
	query := []string{"w0", "w7", "w400", "none", "w1"}

	var texts []string
	for range 900 {
		texts = append(texts, draw(1+r.IntN(120)))
	}
	texts = append(texts, strings.Repeat("long w0 ", 30_000), "", draw(20_000))
	h.put("a", texts[:500], 37)
	h.check(words, query)
	h.put("a", texts, 400)
	h.check(words, query)
	h.delete(0.01, r) // word by word
	h.check(words, query)
	h.put("b", texts[:40], 1)
	h.check(words, query)
	h.delete(0.02, r)
	h.check(words, query)
	h.delete(0.5, r) // built anew
	h.check(words, query)
	h.put("c", texts[100:200], 10)
	h.check(words, query)
}

// The engine's own ranking is what is left if the index can't be read here; it finds the same nodes.
func TestEngineFindsTheSame(t *testing.T) {
	db := open(t, t.TempDir(), Config{})
	putAll(t, db.Store(), drawLeaves(600, 3), 100)
	search := func() []store.Hit {
		hits, err := db.Store().Keyword(t.Context(), "bench", store.Query{Text: benchWord(300) + " " + benchWord(2), Limit: 1000, Filter: store.AnyLevel()})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(hits, func(a, b store.Hit) int { return a.Node.ID.Compare(b.Node.ID) })
		return hits
	}
	want := search()
	err := db.write(t.Context(), func(s *session) error { return s.exec("UPDATE words_1_config SET v = 3 WHERE k = 'version'") })
	if err != nil {
		t.Fatal(err)
	}
	err = db.read(t.Context(), func(s *session) error {
		c, err := s.collection("bench")
		if err != nil {
			return err
		}
		_, err = s.keywordSegments(c)
		return err
	})
	if !errors.Is(err, errIndexFormat) {
		t.Fatalf("index of version 3: %v, want errIndexFormat", err)
	}
	err = db.write(t.Context(), func(s *session) error { return s.exec("UPDATE words_1_config SET v = 4 WHERE k = 'version'") })
	if err != nil {
		t.Fatal(err)
	}
	err = db.read(t.Context(), func(s *session) error {
		table, c, err := db.store.table(s, "bench")
		if err != nil {
			return err
		}
		scores := make([]float64, len(table.nodes))
		if err := s.engineScores(c, table, []string{benchWord(300), benchWord(2)}, scores); err != nil {
			return err
		}
		got := 0
		for i, score := range scores {
			if score > 0 {
				got++
				if !slices.ContainsFunc(want, func(h store.Hit) bool { return h.Node.ID == table.ids[i] }) {
					t.Errorf("only the engine finds %s", table.ids[i])
				}
			}
		}
		if got != len(want) {
			t.Errorf("the engine finds %d nodes, want %d", got, len(want))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzPostings reads pages of any bytes: an error, or an end, but no panic and no endless loop.
func FuzzPostings(f *testing.F) {
	f.Add([]byte{0, 0, 0, 12, 3, '0', 'a', 'b', 1, 2, 2, 9, 4}, []byte{0, 4, 0, 8, 1, 2, 3, 4})
	f.Add([]byte{0, 0, 0, 4}, []byte{})
	f.Add([]byte{0, 4, 0, 5, 255, 255}, []byte{255})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		rows := 0
		d := doclist{word: []byte("0ab"), fn: func(int64, int) { rows++ }}
		if d.page(a) == nil {
			d.page(b)
		}
		if rows > len(a)+len(b) {
			t.Errorf("%d rows in %d bytes", rows, len(a)+len(b))
		}
		parseStructure(a)
	})
}

// TestC12SegmentsBeingMerged: FTS5 merges segments by and by, and takes away the first pages of those that it is at. Every word is found
// all the while.
func TestC12SegmentsBeingMerged(t *testing.T) {
	db := open(t, t.TempDir(), Config{})
	st, merged := db.Store(), 0
	words := func(i int) string {
		var b strings.Builder
		for j := range 60 {
			fmt.Fprintf(&b, "common w%d v%d ", (i*61+j*j)%4001, (i*13+j)%977)
		}
		return b.String()
	}
	want := map[string]int{}
	for batch := range 24 {
		var nodes []tree.Node
		for i := range 64 {
			n := batch*64 + i
			held := map[string]bool{}
			for w := range strings.FieldsSeq(words(n)) {
				held[w] = true
			}
			for w := range held {
				want[w]++
			}
			nodes = append(nodes, tree.Node{ID: tree.LeafID("c", "d", n, ""), DocumentID: "d", ChunkIndex: n, Text: words(n), NLeaves: 1, Died: tree.Alive, Vector: []float32{1, 0}})
		}
		if err := st.Put(t.Context(), "c", nodes); err != nil {
			t.Fatal(err)
		}
		err := db.read(t.Context(), func(s *session) error {
			c, err := s.collection("c")
			if err != nil {
				return err
			}
			segments, err := s.keywordSegments(c)
			if slices.ContainsFunc(segments, func(seg keywordSegment) bool { return seg.first > 1 }) {
				merged++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"common", "w0", "w2000", "w4000", "v0", "v500", "v976"} {
			hits, err := st.Keyword(t.Context(), "c", store.Query{Text: word, Limit: 5000, Filter: store.AnyLevel()})
			if err != nil || len(hits) != want[word] {
				t.Fatalf("batch %d, %s: %d hits, want %d: %v", batch, word, len(hits), want[word], err)
			}
		}
	}
	if merged == 0 {
		t.Error("no segment was being merged at any time: the test shows nothing")
	}
}
