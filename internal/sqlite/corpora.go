package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Corpora implements [levels.Corpora].
type Corpora struct{ db *DB }

var _ levels.Corpora = (*Corpora)(nil)

// Corpora returns the records of corpora.
func (db *DB) Corpora() *Corpora { return &Corpora{db} }

// Load implements [levels.Corpora].
func (c *Corpora) Load(ctx context.Context, name string) (*levels.Corpus, error) {
	var corpus levels.Corpus
	if err := c.db.record(ctx, "SELECT record FROM corpora WHERE name = ?", name, &corpus); err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: %w", name, err)
	}
	return &corpus, nil
}

// Update implements [levels.Corpora]. The write lock is held while change runs, so it runs once.
func (c *Corpora) Update(ctx context.Context, name string, change func(*levels.Corpus) error) error {
	var own error
	err := c.db.write(ctx, func(s *session) error {
		var corpus levels.Corpus
		var record []byte
		ok, err := s.row("SELECT record FROM corpora WHERE name = ?", []any{name}, &record)
		if err != nil {
			return err
		}
		if ok {
			if err := json.Unmarshal(record, &corpus); err != nil {
				return err
			}
		}
		corpus.Name = name
		if own = change(&corpus); own != nil {
			return own
		}
		corpus.Name = name
		if record, err = json.Marshal(&corpus); err != nil {
			return err
		}
		return s.exec("INSERT OR REPLACE INTO corpora (name, record) VALUES (?, ?)", name, string(record))
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return fmt.Errorf("sqlite: corpus %s: update: %w", name, err)
	}
	return nil
}

// List implements [levels.Corpora].
func (c *Corpora) List(ctx context.Context) ([]string, error) {
	var names []string
	err := c.db.read(ctx, func(s *session) error {
		return s.rows("SELECT name FROM corpora ORDER BY name", nil, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			names = append(names, name)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: list corpora: %w", err)
	}
	return names, nil
}

// Drop implements [levels.Corpora].
func (c *Corpora) Drop(ctx context.Context, name string) error {
	err := c.db.write(ctx, func(s *session) error {
		for _, query := range []string{
			"DELETE FROM corpora WHERE name = ?", "DELETE FROM builds WHERE corpus = ?", "DELETE FROM history WHERE corpus = ?", "DELETE FROM progress WHERE corpus = ?",
			"DELETE FROM wishes WHERE corpus = ?", "DELETE FROM barriers WHERE corpus = ?",
		} {
			if err := s.exec(query, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sqlite: drop the record of corpus %s: %w", name, err)
	}
	return nil
}
