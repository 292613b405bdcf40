package ingest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// known is a document that the corpus holds.
type known struct{ id, source, path string }

// lookedUp is how many files are looked up in the store together.
const lookedUp = 500

// identify gives each file the id under which the corpus knows it, by where it is; else the one that it has, unless that is another
// document's: then the whole path is its id. The files of a corpus that held nothing keep theirs.
func (r *run) identify(files []*corpus.File) error {
	for part := range slices.Chunk(files, lookedUp) {
		if err := r.identifyPart(part); err != nil {
			return err
		}
		for _, f := range part {
			r.files.add(f)
		}
	}
	return nil
}

func (r *run) identifyPart(files []*corpus.File) error {
	if r.fresh {
		return nil
	}
	byPath, byID := store.Leaves(), store.Leaves()
	for _, f := range files {
		byPath.Paths, byID.Documents = append(byPath.Paths, f.Path), append(byID.Documents, f.ID)
	}
	at, err := r.holds(byPath)
	if err != nil {
		return err
	}
	ids, err := r.holds(byID)
	if err != nil {
		return err
	}
	for _, f := range files {
		if k, ok := fileAt(at, f); ok {
			f.ID = k.id
			if !corpus.Named(f.Source) {
				f.Source = k.source
			}
			continue
		}
		i := slices.IndexFunc(ids, func(k known) bool { return k.id == f.ID })
		if i < 0 || r.same(ids[i], f) {
			continue
		}
		f.ID = f.Path
	}
	return nil
}

// fileAt returns the file of the corpus that is where another one is: of the same source if there are several.
func fileAt(all []known, f *corpus.File) (known, bool) {
	var found []known
	for _, k := range all {
		file, _, _ := strings.Cut(k.id, "#")
		if whole := k.id; strings.HasSuffix(f.Path, "/"+path.Base(whole)) {
			file = whole
		}
		// Rows that stand in the file may be called anything.
		if k.path == f.Path && (f.Path == file || strings.HasSuffix(f.Path, "/"+path.Base(file))) {
			k.id = file
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return known{}, false
	}
	i := slices.IndexFunc(found, func(k known) bool { return k.source == f.Source })
	return found[max(0, i)], true
}

// same reports whether the document that has the id of a file is that file: as its place was not kept, under the same name of a source,
// or because it has moved away from where it was.
func (r *run) same(k known, f *corpus.File) bool {
	if k.path == "" || k.source == f.Source {
		return true
	}
	if corpus.Named(k.source) || corpus.Named(f.Source) || r.req.Stream != nil {
		return false
	}
	return missing("", k.path)
}

// missing reports whether there is nothing any more at a path of the machine of a name.
func missing(host, at string) bool {
	local, ok := corpus.LocalPath(host, at)
	if !ok {
		return false
	}
	_, err := os.Lstat(local)
	return errors.Is(err, fs.ErrNotExist)
}

// holds returns the documents of which a filter keeps leaves that are there.
func (r *run) holds(filter store.Filter) ([]known, error) {
	found := map[known]bool{}
	var all []known
	err := r.in.store.Each(r.ctx, r.req.Corpus, filter, store.Fields{}, func(n *tree.Node) error {
		k := known{n.DocumentID, n.Source, n.Path}
		if n.Died != tree.Deleted && !found[k] {
			found[k] = true
			all = append(all, k)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ingest: corpus %s: %w", r.req.Corpus, err)
	}
	return all, nil
}

// moved reports documents that were read somewhere else before.
func (r *run) moved(docs []*document) {
	for _, doc := range docs {
		if doc.was != "" && doc.was != doc.path && doc.path != "" {
			r.report.warn(doc.source, fmt.Sprintf("document %q was read at %s before, and has taken its place", doc.id, doc.was))
		}
		doc.was = ""
	}
}

// inventory is what an ingest has read, for what is gone.
type inventory struct {
	host   string
	paths  map[string]string          // of files, by the name under which they were found
	broken map[string]bool            // files of which something could not be read, by name
	ids    map[string]bool            // of documents
	parts  map[string]map[string]bool // ids of documents by path
}

func newInventory(host string) *inventory {
	return &inventory{host: host, paths: map[string]string{}, broken: map[string]bool{}, ids: map[string]bool{}, parts: map[string]map[string]bool{}}
}

func (v *inventory) add(f *corpus.File) {
	v.paths[f.Name] = f.Path
	if v.parts[f.Path] == nil {
		v.parts[f.Path] = map[string]bool{}
	}
}

// saw notes a document.
func (v *inventory) saw(id, path string) {
	v.ids[id] = true
	if path != "" {
		if v.parts[path] == nil {
			v.parts[path] = map[string]bool{}
		}
		v.parts[path][id] = true
	}
}

// read reports whether a file was read without a fault.
func (v *inventory) read(path string) bool {
	if v.parts[path] == nil {
		return false
	}
	for name, at := range v.paths {
		if at == path && v.broken[name] {
			return false
		}
	}
	return true
}

// holds reports whether a document was among the input. An id that the corpus gave the file instead of its own counts too.
func (v *inventory) holds(k known) bool {
	if v.ids[k.id] {
		return true
	}
	_, part, _ := strings.Cut(k.id, "#")
	for id := range v.parts[k.path] {
		_, own, _ := strings.Cut(id, "#")
		if own == part && path.Base(id) == path.Base(k.id) {
			return true
		}
	}
	return false
}
