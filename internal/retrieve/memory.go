package retrieve

import (
	"sync"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// maxRemembered bounds the documents and leaves that are remembered as sources for one corpus; beyond it they are forgotten
// together.
const maxRemembered = 1 << 18

// memory keeps, for each corpus, what many queries to one generation read alike. The walk from a summary near the top
// to its leaves reads a large part of the corpus, and every query that finds it would repeat it.
type memory struct {
	mu      sync.Mutex
	corpora map[string]*remembered
}

type remembered struct {
	generation int
	changes    int64
	sources    map[tree.ID]source
	size       int // of sources: documents and leaves
	tree       *shape
	open       *openLeaves
}

// of returns what is remembered of a corpus at its record's generation. The caller holds mu.
func (m *memory) of(record *levels.Corpus) *remembered {
	if m.corpora == nil {
		m.corpora = map[string]*remembered{}
	}
	known := m.corpora[record.Name]
	if known == nil || known.generation != record.Generation {
		known = &remembered{generation: record.Generation}
		m.corpora[record.Name] = known
	}
	if known.changes != record.Changes {
		known.changes, known.sources, known.open = record.Changes, nil, nil
	}
	return known
}

// shape returns the shape of the tree, nil if it isn't known. Where only the top level matters any will do;
// otherwise it must say which nodes have parents.
func (m *memory) shape(record *levels.Corpus, whole bool) *shape {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(record).tree
	if known == nil || !whole && known.parented == nil {
		return nil
	}
	return known
}

func (m *memory) keepShape(record *levels.Corpus, s *shape) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(record).tree = s
}

// open returns the open leaves of a corpus, nil if they aren't known.
func (m *memory) open(record *levels.Corpus) *openLeaves {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(record).open
}

func (m *memory) keepOpen(record *levels.Corpus, open *openLeaves) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(record).open = open
}

// source returns the sources of a summary, if they are known and can't have changed since.
func (m *memory) source(record *levels.Corpus, id tree.ID) (source, bool) {
	if !unchanged(record) {
		return source{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.of(record).sources[id]
	return s, ok
}

// keepSource remembers the sources of a summary. As soon as a leaf has changed since the build nothing is kept: a
// deletion that is under way could be recorded before the leaf is gone, and its text would be returned later.
func (m *memory) keepSource(record *levels.Corpus, id tree.ID, s source) {
	if !unchanged(record) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(record)
	size := len(s.documents) + len(s.leaves)
	if known.sources == nil || known.size+size > maxRemembered {
		known.sources, known.size = map[tree.ID]source{}, 0
	}
	known.sources[id] = s
	known.size += size
}
