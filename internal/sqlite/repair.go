package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aerie-rag/aerie/internal/store"
)

// Repaired says what Repair made again.
type Repaired struct {
	Corpus string `json:"corpus"`
	Nodes  int    `json:"nodes"` // in the keyword index
}

// Repair makes again what is made of something else: the keyword index, of the texts, and the files beside the database, which the
// next query makes. It is done for one corpus, or with "" for all. It needs no index that can be read.
func (db *DB) Repair(ctx context.Context, corpus string) ([]Repaired, error) {
	var done []Repaired
	var collections []*collection
	err := db.write(ctx, func(s *session) error {
		done, collections = nil, nil
		var names []string
		err := s.rows("SELECT name FROM collections WHERE name = ?1 OR ?1 = '' ORDER BY name", []any{corpus}, func(scan func(...any) error) error {
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
			if err := s.repairKeywords(c); err != nil {
				return fmt.Errorf("keyword index of corpus %s: %w", name, err)
			}
			r := Repaired{Corpus: name}
			if _, err := s.row("SELECT count(*) FROM texts WHERE node >= ? AND node < ?", []any{c.firstNode, c.beyondNodes}, &r.Nodes); err != nil {
				return err
			}
			// Readers that have the old tables in memory read them anew.
			if err := s.exec("UPDATE collections SET stamp = ? WHERE id = ?", newStamp(), c.id); err != nil {
				return err
			}
			done, collections = append(done, r), append(collections, c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: repair: %w", err)
	}
	for _, c := range collections {
		if err := db.store.forget(c); err != nil {
			return done, fmt.Errorf("sqlite: repair: %w", err)
		}
	}
	return done, nil
}

// repairKeywords is rebuildKeywords for an index that may be in any state.
func (s *session) repairKeywords(c *collection) error {
	if err := s.exec("SAVEPOINT repair"); err != nil {
		return err
	}
	err := s.rebuildKeywords(c)
	if err == nil {
		return s.exec("RELEASE repair")
	}
	if !isEngineError(err) && !errors.Is(plain(err), store.ErrIndexDamaged) {
		return errors.Join(err, s.exec("ROLLBACK TO repair"), s.exec("RELEASE repair"))
	}
	// FTS5 can't open its own table, not even to drop it: it gets what an empty one begins with.
	s.forget()
	for _, statement := range []string{
		"ROLLBACK TO repair",
		"DELETE FROM " + c.keywords + "_data",
		"DELETE FROM " + c.keywords + "_idx",
		"DELETE FROM " + c.keywords + "_docsize",
		"DELETE FROM " + c.keywords + "_config",
		"INSERT INTO " + c.keywords + "_config (k, v) VALUES ('version', 4)",
		"INSERT INTO " + c.keywords + "_data (id, block) VALUES (1, x''), (10, x'0000000000000000')",
		"RELEASE repair",
	} {
		if err := s.exec(statement); err != nil {
			return err
		}
	}
	return s.rebuildKeywords(c)
}

// removeFile is os.Remove of a file that needn't be there.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
