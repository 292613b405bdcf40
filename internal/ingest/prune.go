package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/store"
)

// prune removes the documents of the request's sources whose files or rows are gone.
func (r *run) prune(ctx context.Context) error {
	for id, doc := range r.docs.docs {
		r.files.saw(id, doc.path)
	}
	p, err := newPruner(r.in.cfg.Base, r.req, r.files)
	if err != nil {
		return err
	}
	err = r.in.store.Documents(ctx, r.req.Corpus, "", func(d store.Document) error {
		p.look(known{d.ID, d.Source, d.Path})
		return nil
	})
	if err != nil {
		return fmt.Errorf("ingest: corpus %s: %w", r.req.Corpus, err)
	}
	for _, id := range p.gone {
		n, err := r.in.deleteOne(ctx, r.req.Corpus, id)
		if err != nil {
			return err
		}
		r.report.Documents.Removed++
		r.report.Leaves.Removed += n
	}
	for _, source := range p.left {
		r.report.warn(source, sourceLeft)
	}
	return nil
}

// sourceLeft is what is said of a source that is gone as a whole.
const sourceLeft = "there is nothing any more where this source was; its documents stay, since --prune never leaves the sources that are named: aerie delete --source removes them"

// pruner tells which documents are gone. A document is looked for only if it belongs to a source of the request.
type pruner struct {
	base   string
	source string // the name that was given; ""
	roots  []root
	seen   *inventory
	gone   []string
	left   []string // sources that are gone as a whole, and not of the request
}

// root is a folder or file that was named.
type root struct {
	path   string // without links, with its machine
	prefix string // what ids of an older aerie, which kept no path, begin with; legacy says whether it can have any
	legacy bool
}

func newPruner(base string, req Request, seen *inventory) (*pruner, error) {
	p := &pruner{base: base, source: req.Reading.Source, seen: seen}
	for _, path := range req.Paths {
		info, err := os.Stat(path)
		if path == "-" || err != nil {
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		real, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		x := root{path: filepath.ToSlash(real), legacy: info.IsDir()}
		if seen.host != "" {
			x.path = seen.host + ":" + x.path
		}
		folder, err := corpus.FileID(base, path)
		if err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		if x.prefix = strings.TrimSuffix(folder, "/") + "/"; folder == "." {
			x.prefix = ""
		}
		p.roots = append(p.roots, x)
	}
	return p, nil
}

// look looks at one document of the corpus.
func (p *pruner) look(k known) {
	switch {
	case p.seen.holds(k):
	case k.path == "":
		if p.source == "" && slices.ContainsFunc(p.roots, func(x root) bool { return x.legacyHolds(k.id) }) && vanished(p.base, k.id) {
			p.gone = append(p.gone, k.id)
		}
	case !p.owns(k):
		if p.source == "" && !corpus.Named(k.source) && k.source != "" && !slices.Contains(p.left, k.source) && missing(p.seen.host, k.source) {
			p.left = append(p.left, k.source)
		}
	case p.seen.read(k.path), missing(p.seen.host, k.path):
		p.gone = append(p.gone, k.id)
	}
}

// owns reports whether a document belongs to a source of the request.
func (p *pruner) owns(k known) bool {
	if p.source != "" {
		return k.source == p.source
	}
	return !corpus.Named(k.source) && slices.ContainsFunc(p.roots, func(x root) bool {
		return k.path == x.path || strings.HasPrefix(k.path, strings.TrimSuffix(x.path, "/")+"/")
	})
}

func (x root) legacyHolds(id string) bool {
	outside := x.prefix == "" && filepath.IsAbs(filepath.FromSlash(id))
	return x.legacy && strings.HasPrefix(id, x.prefix) && !outside
}

// vanished reports whether a document was read from a file that isn't there any more. Ids that no file can have, such as those
// of rows, are never taken for one.
func vanished(base, id string) bool {
	if !corpus.IsFileID(id) {
		return false
	}
	name, _, _ := strings.Cut(id, "#") // a part of a file is there as long as the file is
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
