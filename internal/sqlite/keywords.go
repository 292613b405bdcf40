package sqlite

import (
	"fmt"
)

// createKeywords makes an empty keyword index. The tokenizer only has to split at the spaces that segment puts in. With
// secure-delete, what is deleted leaves the index at once and not when segments happen to be merged.
func (s *session) createKeywords(c *collection) error {
	if err := s.exec(fmt.Sprintf("CREATE VIRTUAL TABLE %s USING fts5 (words, content='', tokenize='ascii')", c.keywords)); err != nil {
		return err
	}
	return s.exec(fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rank) VALUES ('secure-delete', 1)", c.keywords))
}

// dropKeywords removes a keyword index. Statements that were prepared on it would keep it from going.
func (s *session) dropKeywords(c *collection) error {
	s.forget()
	return s.exec("DROP TABLE " + c.keywords)
}

// rebuildKeywords makes the keyword index anew from the texts.
func (s *session) rebuildKeywords(c *collection) error {
	if err := s.dropKeywords(c); err != nil {
		return err
	}
	if err := s.createKeywords(c); err != nil {
		return err
	}
	query := "INSERT INTO " + c.keywords + " (rowid, words) VALUES (?, ?)"
	return s.rows("SELECT node, text FROM texts WHERE node >= ? AND node < ? ORDER BY node", []any{c.firstNode, c.beyondNodes},
		func(scan func(...any) error) error {
			var node int64
			var text string
			if err := scan(&node, &text); err != nil {
				return err
			}
			return s.exec(query, node, segment(text, false))
		})
}
