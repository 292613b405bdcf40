package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/word"
)

// Keyword implements [store.Store]. Every match is scored, and filters are applied to all of them, so that no hit is
// lost to a filter.
func (st *Store) Keyword(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	words := word.Query(q.Text)
	var hits []store.Hit
	err := st.query(ctx, corpus, &q, func(s *session, c *collection, t *table, keep func(int) bool) error {
		if len(words) == 0 {
			return nil
		}
		w := st.scoring(len(t.nodes))
		defer st.sheets.Put(w)
		err := s.bm25(c, t, words, w)
		if errors.Is(err, errIndexFormat) {
			clear(w.scores)
			if err = plain(s.engineScores(c, t, words, w.scores)); isEngineError(err) {
				err = damaged("%v", err) // it doesn't know the format either
			}
		}
		if err != nil {
			return err
		}
		best := newTop(t.ids, q.Limit)
		for i, score := range w.scores {
			if score > 0 && best.admits(score) && keep(i) {
				best.add(scored{i, score})
			}
		}
		hits, err = s.hits(t, best.sorted(), q.With)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: keyword search: %w", corpus, err)
	}
	return hits, nil
}

// posting says how often a row of the table holds a word.
type posting struct{ row, times int32 }

// sheet is the memory of one keyword search: megabytes for a large corpus, so that it is used again.
type sheet struct {
	scores []float64 // of each row
	found  []posting // of one word
}

// scoring returns a sheet whose scores are 0, for n rows.
func (st *Store) scoring(n int) *sheet {
	w, _ := st.sheets.Get().(*sheet)
	if w == nil {
		w = &sheet{}
	}
	if cap(w.scores) < n {
		w.scores = make([]float64, n)
	}
	w.scores = w.scores[:n]
	clear(w.scores)
	return w
}

// bm25 adds up the score of every row of a table: for each of the distinct words
//
//	log(1 + (N - n + 1/2)/(n + 1/2)) · f(k+1) / (f + k(1 - b + b·len/mean)),  k = 1.2, b = 0.75,
//
// with N rows of which n hold the word, f times this one, len words long (Robertson and Zaragoza, "The Probabilistic
// Relevance Framework: BM25 and Beyond", 2009, eq. 3.15; the 1 keeps a word positive that most rows hold). Words are added
// in their order, so that a score doesn't depend on how the index is cut into segments.
func (s *session) bm25(c *collection, t *table, words []string, w *sheet) error {
	const k, b = 1.2, 0.75
	segments, err := s.keywordSegments(c)
	if err != nil {
		return err
	}
	places, err := s.places(c, segments, words)
	if err != nil {
		return err
	}
	scores, found := w.scores, w.found
	mean := float64(t.allWords) / float64(len(t.nodes))
	for i, word := range words {
		found = found[:0]
		at, before := 0, int64(0)
		err := s.postings(c, segments, places[i], word, func(node int64, times int) {
			if node < before { // another segment
				at = 0
			}
			before = node
			var ok bool
			if at, ok = t.index(node, at); ok {
				found = append(found, posting{int32(at), int32(times)})
			}
		})
		w.found = found
		if err != nil {
			return err
		}
		n := float64(len(found))
		idf := math.Log(1 + (float64(len(t.nodes))-n+0.5)/(n+0.5))
		for _, p := range found {
			f := float64(p.times)
			scores[p.row] += idf * f * (k + 1) / (f + k*(1-b+b*float64(t.words[p.row])/mean))
		}
	}
	return nil
}

// engineScores asks FTS5 for the scores, which takes longer. Each word is quoted, so that it is never an operator.
func (s *session) engineScores(c *collection, t *table, words []string, scores []float64) error {
	at := 0
	query := fmt.Sprintf("SELECT rowid, -bm25(%[1]s) FROM %[1]s WHERE %[1]s MATCH ? ORDER BY rowid", c.keywords)
	match := `"` + strings.Join(words, `" OR "`) + `"`
	return s.rows(query, []any{match}, func(scan func(...any) error) error {
		var node int64
		var score float64
		if err := scan(&node, &score); err != nil {
			return err
		}
		var ok bool
		if at, ok = t.index(node, at); ok {
			scores[at] = score
		}
		return nil
	})
}

// createKeywords makes an empty keyword index. The tokenizer only has to split at the spaces that Segment puts in. With
// secure-delete, what is deleted leaves the index at once and not when segments happen to be merged.
func (s *session) createKeywords(c *collection) error {
	if err := s.exec(fmt.Sprintf("CREATE VIRTUAL TABLE %s USING fts5 (words, content='', tokenize=\"ascii tokenchars '%s'\")", c.keywords, word.Symbols)); err != nil {
		return err
	}
	return s.exec(fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rank) VALUES ('secure-delete', 1)", c.keywords))
}

// isEngineError reports whether SQLite itself can't make sense of a table.
func isEngineError(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code()&0xff == codes.SQLITE_ERROR || e.Code() == codes.SQLITE_CORRUPT_VTAB)
}

// dropKeywords removes a keyword index. Statements that were prepared on it would keep it from going.
func (s *session) dropKeywords(c *collection) error {
	s.forget()
	return s.exec("DROP TABLE " + c.keywords)
}

// rebuildKeywords makes the keyword index anew from the texts. A node's number of words stays what it is, which is wrong
// when the rules of segment have changed; see renewKeywords.
func (s *session) rebuildKeywords(c *collection) error {
	if err := s.dropKeywords(c); err != nil {
		return err
	}
	if err := s.createKeywords(c); err != nil {
		return err
	}
	query := "INSERT INTO " + c.keywords + " (rowid, words) VALUES (?, ?)"
	return s.rows("SELECT node, text, context FROM texts WHERE node >= ? AND node < ? ORDER BY node", []any{c.firstNode, c.beyondNodes},
		func(scan func(...any) error) error {
			var node int64
			var text, around string
			if err := scan(&node, &text, &around); err != nil {
				return err
			}
			return s.exec(query, node, word.Indexed(around, text))
		})
}

// renewKeywords builds anew the keyword indexes that were fed under other rules than those of segment now.
func (s *session) renewKeywords() error {
	var names []string
	err := s.rows("SELECT name FROM collections WHERE segmenter <> ?", []any{word.Version}, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		c, err := s.collection(name)
		if err != nil {
			return err
		}
		if err := s.rebuildKeywords(c); err != nil {
			return fmt.Errorf("keyword index of corpus %s: %w", name, err)
		}
		err = s.rows("SELECT node, text, context FROM texts WHERE node >= ? AND node < ?", []any{c.firstNode, c.beyondNodes}, func(scan func(...any) error) error {
			var node int64
			var text, around string
			if err := scan(&node, &text, &around); err != nil {
				return err
			}
			return s.exec("UPDATE nodes SET words = ? WHERE node = ?", word.Count(word.Indexed(around, text)), node)
		})
		if err == nil {
			err = s.exec("UPDATE collections SET segmenter = ?, stamp = ? WHERE id = ?", word.Version, newStamp(), c.id)
		}
		if err != nil {
			return fmt.Errorf("keyword index of corpus %s: %w", name, err)
		}
	}
	return nil
}
