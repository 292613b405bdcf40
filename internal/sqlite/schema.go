package sqlite

import (
	"context"
	"fmt"

	"github.com/aerie-rag/aerie/internal/word"
)

// schemaVersion is what user_version holds. Raise it with every change of the schema, and add the step that
// leads there to migrations.
const schemaVersion = 4

// applicationID marks the file as ours, for file(1) and against mistakes: "aeri".
const applicationID = 0x61657269

// migrations[v] leads from version v to v+1.
var migrations = [schemaVersion]string{`
-- A corpus as a set of nodes. Its keyword index is the table words_<id>.
CREATE TABLE collections (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	name      TEXT NOT NULL UNIQUE,
	width     INTEGER NOT NULL,           -- of its vectors
	next      INTEGER NOT NULL DEFAULT 0, -- sequence number of the next node
	stamp     INTEGER NOT NULL,           -- another one after every change other than new nodes
	segmenter INTEGER NOT NULL            -- rules that fed the keyword index
);
CREATE TABLE documents (
	id     INTEGER PRIMARY KEY,
	corpus INTEGER NOT NULL,
	name   TEXT NOT NULL,
	UNIQUE (corpus, name)
);
-- Metadata of leaves, each distinct value once, as JSON.
CREATE TABLE metadata (
	id     INTEGER PRIMARY KEY,
	corpus INTEGER NOT NULL,
	value  TEXT NOT NULL,
	UNIQUE (corpus, value)
);
CREATE TABLE nodes (
	node        INTEGER PRIMARY KEY,      -- corpus << 40 | sequence number
	corpus      INTEGER NOT NULL,
	id          BLOB NOT NULL,            -- 16 bytes
	level       INTEGER NOT NULL,
	document    INTEGER NOT NULL,         -- documents.id
	chunk_index INTEGER NOT NULL,
	scope       TEXT NOT NULL,
	children    BLOB,                     -- ids, one after the other
	tokens      INTEGER NOT NULL,
	words       INTEGER NOT NULL,         -- in the keyword index
	n_leaves    INTEGER NOT NULL,
	recipe      TEXT NOT NULL,
	born        INTEGER NOT NULL,
	died        INTEGER NOT NULL,
	metadata    INTEGER                   -- metadata.id
);
CREATE UNIQUE INDEX nodes_by_id ON nodes (corpus, id);
CREATE INDEX nodes_in_order ON nodes (corpus, level, document, chunk_index, id);
CREATE INDEX nodes_by_metadata ON nodes (metadata) WHERE metadata IS NOT NULL;
CREATE TABLE texts (
	node INTEGER PRIMARY KEY,
	text TEXT NOT NULL
);
CREATE TABLE vectors (
	node   INTEGER PRIMARY KEY,
	vector BLOB NOT NULL                  -- float32, little-endian
);

CREATE TABLE corpora (
	name   TEXT PRIMARY KEY,
	record TEXT NOT NULL                  -- levels.Corpus as JSON
) WITHOUT ROWID;
-- A lease outlives its corpus, so that no epoch is given out twice.
CREATE TABLE leases (
	corpus TEXT PRIMARY KEY,
	holder TEXT NOT NULL,                 -- '' once released
	epoch  INTEGER NOT NULL,
	until  INTEGER NOT NULL               -- Unix time in nanoseconds
) WITHOUT ROWID;
CREATE TABLE builds (
	corpus TEXT PRIMARY KEY,
	state  TEXT NOT NULL                  -- levels.State as JSON
) WITHOUT ROWID;
CREATE TABLE progress (
	corpus   TEXT PRIMARY KEY,
	progress TEXT NOT NULL                -- levels.Reports as JSON
) WITHOUT ROWID;
CREATE TABLE wishes (
	corpus TEXT NOT NULL,
	build  TEXT NOT NULL,
	wish   TEXT NOT NULL,
	PRIMARY KEY (corpus, build)
) WITHOUT ROWID;
CREATE TABLE barriers (
	corpus TEXT NOT NULL,
	build  TEXT NOT NULL,
	level  INTEGER NOT NULL,
	digest TEXT NOT NULL,
	total  INTEGER NOT NULL,
	done   BLOB NOT NULL,                 -- a bit for each position, lowest first
	dead   BLOB NOT NULL,
	usage  TEXT NOT NULL,                 -- tree.Usage as JSON
	PRIMARY KEY (corpus, build, level)
);
`, `
-- Of a summary in a tree that has grown.
ALTER TABLE nodes ADD COLUMN author BLOB;                       -- id; NULL: its own
ALTER TABLE nodes ADD COLUMN unseen INTEGER NOT NULL DEFAULT 0; -- tokens
ALTER TABLE nodes ADD COLUMN formed INTEGER NOT NULL DEFAULT 0; -- tokens; 0: unknown
`, `
-- Where documents come from, and what they say around a leaf's text.
ALTER TABLE documents ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN path TEXT NOT NULL DEFAULT '';
CREATE INDEX documents_by_path ON documents (corpus, path) WHERE path <> '';
ALTER TABLE nodes ADD COLUMN updated INTEGER NOT NULL DEFAULT 0; -- Unix time in seconds; 0: unknown
ALTER TABLE texts ADD COLUMN context TEXT NOT NULL DEFAULT '';
`, `
-- What is kept of every build.
CREATE TABLE history (
	corpus TEXT NOT NULL,
	build  TEXT NOT NULL,
	state  TEXT NOT NULL,                 -- levels.State as JSON, as its Past has it
	PRIMARY KEY (corpus, build)
) WITHOUT ROWID;
INSERT INTO history (corpus, build, state)
	SELECT corpus, json_extract(state, '$.build'), json_remove(state, '$.buried', '$.settings') FROM builds;
`}

// migrate creates the schema or brings it up to date, in one transaction.
func migrate(ctx context.Context, w *writer) error {
	v, err := version(w.session)
	if err != nil {
		return err
	}
	if v == schemaVersion {
		var old int
		_, err := w.session.row("SELECT count(*) FROM collections WHERE segmenter <> ?", []any{word.Version}, &old)
		if err != nil || old == 0 {
			return err
		}
	}
	return w.do(ctx, func(s *session) error {
		v, err := version(s) // again: another process may have been quicker
		if err != nil {
			return err
		}
		for ; v < schemaVersion; v++ {
			if _, err := s.conn.ExecContext(ctx, migrations[v]); err != nil {
				return fmt.Errorf("schema %d: %w", v+1, err)
			}
		}
		if err := s.exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
		if err := s.exec(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
			return err
		}
		return s.renewKeywords()
	})
}

// version reads the schema's version and refuses what this program can't work with.
func version(s *session) (int, error) {
	var v, application, tables int
	if _, err := s.row("PRAGMA user_version", nil, &v); err != nil {
		return 0, plain(err)
	}
	if _, err := s.row("PRAGMA application_id", nil, &application); err != nil {
		return 0, plain(err)
	}
	if _, err := s.row("SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
		return 0, plain(err)
	}
	switch {
	case tables > 0 && application != applicationID:
		return 0, fmt.Errorf("this is another program's database; choose another home folder")
	case v > schemaVersion:
		return 0, fmt.Errorf("it was written by a newer aerie (schema %d, this one knows %d): use that one, or another home folder", v, schemaVersion)
	}
	return v, nil
}
