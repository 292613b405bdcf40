package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// partSize is how many nodes one statement reads by id.
const partSize = 2000

// Get implements [store.Store].
func (st *Store) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) ([]tree.Node, error) {
	var nodes []tree.Node
	err := st.db.read(ctx, func(s *session) error {
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		query := selectNodesOf(`json_each(?) j CROSS JOIN nodes n ON n.corpus = ? AND n.id = unhex(j.value, '-') JOIN documents d ON d.id = n.document`, "j.key", with)
		for part := range slices.Chunk(ids, partSize) {
			// Sorted here and not by the statement, which would copy texts and vectors for it.
			found := make([]*tree.Node, len(part))
			err := s.rows(query, []any{list(part), c.id}, func(scan func(...any) error) error {
				n, key, err := scanNode(scan, with)
				if err == nil {
					found[key] = n
				}
				return err
			})
			if err != nil {
				return err
			}
			for _, n := range found {
				if n != nil {
					nodes = append(nodes, *n)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: get: %w", corpus, err)
	}
	return nodes, nil
}

// Each implements [store.Store]. The nodes come from one transaction, row by row. A write-ahead log can't be
// folded into the file beyond what an open transaction sees, so a slow fn makes it grow.
func (st *Store) Each(ctx context.Context, corpus string, filter store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	var own error
	err := st.db.read(ctx, func(s *session) error {
		query, args, err := s.eachQuery(corpus, filter, with)
		if err != nil || query == "" {
			return err
		}
		c, err := s.collection(corpus)
		if err != nil {
			return err
		}
		levels, err := s.levels(c, filter)
		if err != nil {
			return err
		}
		for _, level := range levels {
			err := s.rows(query, append([]any{level}, args...), func(scan func(...any) error) error {
				n, _, err := scanNode(scan, with)
				if err == nil {
					err = fn(n)
					own = err
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return fmt.Errorf("sqlite: corpus %s: each: %w", corpus, err)
	}
	return nil
}

// eachQuery returns the statement that reads one level for Each; its first argument, the level, isn't in args. It is ""
// if nothing is selected. The order of the documents' names decides, and rows hold only their numbers: so the
// outer loop goes over the documents by name.
func (s *session) eachQuery(corpus string, filter store.Filter, with store.Fields) (query string, args []any, err error) {
	sel, err := s.selection(corpus, filter)
	if err != nil || sel == nil {
		return "", nil, err
	}
	query = selectNodesOf("documents d CROSS JOIN nodes n ON n.corpus = d.corpus AND n.level = ? AND n.document = d.id", "0", with) +
		" WHERE d.corpus = ?" + sel.where + " ORDER BY d.name, n.chunk_index, n.id"
	return query, append([]any{sel.collection.id}, sel.args...), nil
}

// Count implements [store.Store].
func (st *Store) Count(ctx context.Context, corpus string, filter store.Filter) (int, error) {
	count := 0
	err := st.db.read(ctx, func(s *session) error {
		sel, err := s.selection(corpus, filter)
		if err != nil || sel == nil {
			return err
		}
		args := append([]any{sel.collection.firstNode, sel.collection.beyondNodes, filter.MinLevel, filter.MaxLevel}, sel.args...)
		_, err = s.row(`SELECT count(*) FROM nodes n NOT INDEXED WHERE n.node >= ?1 AND n.node < ?2 AND n.level >= ?3 AND (?4 < 0 OR n.level <= ?4)`+sel.where,
			args, &count)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sqlite: corpus %s: count: %w", corpus, err)
	}
	return count, nil
}

// Documents implements [store.Store].
func (st *Store) Documents(ctx context.Context, corpus, prefix string, fn func(store.Document) error) error {
	var own error
	err := st.db.read(ctx, func(s *session) error {
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		return s.rows(`SELECT d.name, count(*), sum(n.tokens), max(n.updated), d.source, d.path
			FROM documents d CROSS JOIN nodes n ON n.corpus = d.corpus AND n.level = 0 AND n.document = d.id AND n.died <> ?
			WHERE d.corpus = ? AND d.name >= ? GROUP BY d.name ORDER BY d.name`, []any{tree.Deleted, c.id, prefix},
			func(scan func(...any) error) error {
				var d store.Document
				if err := scan(&d.ID, &d.Leaves, &d.Tokens, &d.Updated, &d.Source, &d.Path); err != nil {
					return err
				}
				if !strings.HasPrefix(d.ID, prefix) {
					return errEnough
				}
				own = fn(d)
				return own
			})
	})
	switch {
	case own != nil:
		return own
	case err != nil && !errors.Is(err, errEnough):
		return fmt.Errorf("sqlite: corpus %s: documents: %w", corpus, err)
	}
	return nil
}

// DocumentsAfter implements [store.Store].
func (st *Store) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) ([]store.Document, error) {
	var page []store.Document
	err := st.db.read(ctx, func(s *session) error {
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		return s.rows(`SELECT d.name, count(*), sum(n.tokens), max(n.updated), d.source, d.path
			FROM documents d CROSS JOIN nodes n ON n.corpus = d.corpus AND n.level = 0 AND n.document = d.id AND n.died <> ?
			WHERE d.corpus = ? AND d.name >= ? AND d.name > ? GROUP BY d.name ORDER BY d.name LIMIT ?`,
			[]any{tree.Deleted, c.id, prefix, after, limit},
			func(scan func(...any) error) error {
				var d store.Document
				if err := scan(&d.ID, &d.Leaves, &d.Tokens, &d.Updated, &d.Source, &d.Path); err != nil {
					return err
				}
				if !strings.HasPrefix(d.ID, prefix) {
					return errEnough
				}
				page = append(page, d)
				return nil
			})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("sqlite: corpus %s: documents: %w", corpus, err)
	}
	return page, nil
}

// CountDocuments implements [store.Store].
func (st *Store) CountDocuments(ctx context.Context, corpus string) (int, error) {
	n := 0
	err := st.db.read(ctx, func(s *session) error {
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		_, err = s.row(`SELECT count(*) FROM documents d WHERE d.corpus = ? AND EXISTS (
			SELECT 1 FROM nodes n WHERE n.corpus = d.corpus AND n.level = 0 AND n.document = d.id AND n.died <> ?)`, []any{c.id, tree.Deleted}, &n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sqlite: corpus %s: count documents: %w", corpus, err)
	}
	return n, nil
}

// errEnough ends a loop over rows.
var errEnough = errors.New("enough rows")

// selection is a filter as a part of a statement, for what isn't level or order.
type selection struct {
	collection *collection
	where      string
	args       []any
	documents  map[int64]bool // nil: any
	leaves     bool           // only they
	metadata   map[int64]bool // nil: any
}

// selection resolves a filter; nil if nothing is selected.
func (s *session) selection(corpus string, filter store.Filter) (*selection, error) {
	if err := filter.Validate(); err != nil {
		return nil, err
	}
	c, err := s.collection(corpus)
	if err != nil || c == nil {
		return nil, err
	}
	sel := &selection{collection: c}
	if filter.At != nil {
		sel.where += " AND n.born <= ? AND n.died > ?"
		sel.args = append(sel.args, *filter.At, *filter.At)
	}
	if len(filter.Documents)+len(filter.Paths) > 0 {
		if sel.documents, err = s.documents(c, &filter); err != nil {
			return nil, err
		}
		if len(filter.Paths) > 0 { // a summary of a document was read nowhere
			sel.leaves, sel.where = true, sel.where+" AND n.level = 0"
		}
		sel.where += " AND n.document IN (SELECT value FROM json_each(?))"
		sel.args = append(sel.args, list(slices.Collect(maps.Keys(sel.documents))))
	}
	if filter.OnMetadata() {
		if sel.metadata, err = s.metadata(c, &filter); err != nil {
			return nil, err
		}
		column := "n.metadata"
		if sel.metadata[0] {
			column = "ifnull(n.metadata, 0)"
		}
		sel.where += " AND n.level = 0 AND " + column + " IN (SELECT value FROM json_each(?))"
		sel.args = append(sel.args, list(slices.Collect(maps.Keys(sel.metadata))))
	}
	return sel, nil
}

// documents returns those that the filter names, by id and by path.
func (s *session) documents(c *collection, filter *store.Filter) (map[int64]bool, error) {
	found := func(column string, values []string) (map[int64]bool, error) {
		ids := map[int64]bool{}
		for _, value := range values {
			err := s.rows("SELECT id FROM documents WHERE corpus = ? AND "+column+" = ? AND "+column+" <> ''", []any{c.id, value}, func(scan func(...any) error) error {
				var id int64
				err := scan(&id)
				ids[id] = true
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return ids, nil
	}
	if len(filter.Documents) == 0 {
		return found("path", filter.Paths)
	}
	named, err := found("name", filter.Documents)
	if err != nil || len(filter.Paths) == 0 {
		return named, err
	}
	read, err := found("path", filter.Paths)
	maps.DeleteFunc(named, func(id int64, _ bool) bool { return !read[id] })
	return named, err
}

// metadata returns the distinct metadata that the filter keeps; 0 is that of the leaves without any.
func (s *session) metadata(c *collection, filter *store.Filter) (map[int64]bool, error) {
	kept := map[int64]bool{}
	if filter.SelectsMetadata(nil) {
		kept[0] = true
	}
	err := s.rows("SELECT id, value FROM metadata WHERE corpus = ?", []any{c.id}, func(scan func(...any) error) error {
		var id int64
		var value string
		if err := scan(&id, &value); err != nil {
			return err
		}
		m, err := decodeMetadata(value)
		if err == nil && filter.SelectsMetadata(m) {
			kept[id] = true
		}
		return err
	})
	return kept, err
}

// MetadataKeys implements [store.Store].
func (st *Store) MetadataKeys(ctx context.Context, corpus string) ([]string, error) {
	var keys []string
	err := st.db.read(ctx, func(s *session) error {
		c, err := s.collection(corpus)
		if err != nil || c == nil {
			return err
		}
		return s.rows("SELECT DISTINCT key FROM metadata, json_each(metadata.value) WHERE corpus = ? ORDER BY key", []any{c.id}, func(scan func(...any) error) error {
			var key string
			err := scan(&key)
			keys = append(keys, key)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: corpus %s: metadata keys: %w", corpus, err)
	}
	return keys, nil
}

// list returns a list as a JSON array, the form in which a statement takes one as an argument.
func list[T any](items []T) string {
	b, err := json.Marshal(items)
	if err != nil {
		panic("sqlite: numbers and ids always encode: " + err.Error())
	}
	return string(b)
}

// levels returns the levels that exist, within the filter's bounds, ascending. Each is one step in the index.
func (s *session) levels(c *collection, filter store.Filter) ([]int, error) {
	var levels []int
	for next := filter.MinLevel; filter.MaxLevel < 0 || next <= filter.MaxLevel; {
		var level *int
		if _, err := s.row("SELECT min(level) FROM nodes WHERE corpus = ? AND level >= ?", []any{c.id, next}, &level); err != nil {
			return nil, err
		}
		if level == nil || filter.MaxLevel >= 0 && *level > filter.MaxLevel {
			break
		}
		levels = append(levels, *level)
		next = *level + 1
	}
	return levels, nil
}

// selectNodesOf begins a statement that reads nodes n, of documents d, for scanNode, each with a key, the place in a list.
func selectNodesOf(from, key string, with store.Fields) string {
	columns := key + ", n.id, n.level, d.name, n.chunk_index, n.scope, n.children, n.tokens, n.n_leaves, n.recipe, n.born, n.died, n.author, n.unseen, n.formed, n.updated, CASE n.level WHEN 0 THEN d.source ELSE '' END, CASE n.level WHEN 0 THEN d.path ELSE '' END"
	if with.Text {
		columns += ", (SELECT text FROM texts WHERE node = n.node), (SELECT context FROM texts WHERE node = n.node)"
	}
	if with.Vector {
		columns += ", (SELECT vector FROM vectors WHERE node = n.node)"
	}
	if with.Metadata {
		columns += ", (SELECT value FROM metadata WHERE id = n.metadata)"
	}
	return "SELECT " + columns + " FROM " + from
}

// scanNode reads a node and its key from a row of selectNodesOf.
func scanNode(scan func(...any) error, with store.Fields) (n *tree.Node, key int, err error) {
	n = &tree.Node{}
	var id, children, vector, author sql.RawBytes // read before the next row
	var metadata *string
	dst := []any{&key, &id, &n.Level, &n.DocumentID, &n.ChunkIndex, &n.Scope, &children, &n.Tokens, &n.NLeaves, &n.Recipe, &n.Born, &n.Died, &author, &n.Unseen, &n.Formed, &n.Updated, &n.Source, &n.Path}
	if with.Text {
		dst = append(dst, &n.Text, &n.Context)
	}
	if with.Vector {
		dst = append(dst, &vector)
	}
	if with.Metadata {
		dst = append(dst, &metadata)
	}
	if err := scan(dst...); err != nil {
		return nil, 0, err
	}
	copy(n.ID[:], id)
	copy(n.Author[:], author)
	if len(children) > 0 {
		n.Children = make([]tree.ID, 0, len(children)/len(n.ID))
	}
	for ; len(children) >= len(n.ID); children = children[len(n.ID):] {
		n.Children = append(n.Children, tree.ID(children[:len(n.ID)]))
	}
	if vector != nil {
		n.Vector = decodeVector(vector)
	}
	if metadata != nil {
		if n.Metadata, err = decodeMetadata(*metadata); err != nil {
			return nil, 0, fmt.Errorf("node %s: %w", n.ID, err)
		}
	}
	return n, key, nil
}
