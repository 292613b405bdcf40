package service

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// shape is what of a node is held for the whole tree.
type shape struct {
	id                tree.ID
	level             int
	document          string
	index             int
	children, parents []*shape
}

// view is the tree of one generation.
type view struct {
	corpus     string
	generation int
	all        []*shape // by (level, id)
	byID       map[tree.ID]*shape
}

// views remembers the view that was read last, for who reads a tree page by page. While one is read, others who want the same wait
// for it, and nobody else waits.
type views struct {
	mu      sync.Mutex
	last    *view
	at      viewKey
	reading map[viewKey]*reading
}

// viewKey says which view it is.
type viewKey struct {
	corpus     string
	generation int
	changes    int64
}

// reading is a view that somebody reads.
type reading struct {
	done chan struct{}
	view *view
	err  error
}

// get returns a view that is remembered or read by somebody else, or reads it.
func (s *views) get(ctx context.Context, key viewKey, read func() (*view, error)) (*view, error) {
	for {
		s.mu.Lock()
		if s.last != nil && s.at == key {
			defer s.mu.Unlock()
			return s.last, nil
		}
		r, begun := s.reading[key]
		if !begun {
			if s.reading == nil {
				s.reading = map[viewKey]*reading{}
			}
			r = &reading{done: make(chan struct{})}
			s.reading[key] = r
		}
		s.mu.Unlock()
		if !begun {
			return s.fill(key, r, read)
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.err == nil || !errors.Is(r.err, context.Canceled) { // else whoever read it has gone
			return r.view, r.err
		}
	}
}

// fill reads a view for all who wait for it.
func (s *views) fill(key viewKey, r *reading, read func() (*view, error)) (*view, error) {
	defer close(r.done)
	r.err = context.Canceled // of a read that panics
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reading, key)
		if r.err == nil && r.view.generation == key.generation {
			s.last, s.at = r.view, key
		}
	}()
	r.view, r.err = read()
	return r.view, r.err
}

// view reads the shape of the current generation's tree, without texts.
func (s *Service) view(ctx context.Context, corpus string, remember bool) (*view, error) {
	record, err := s.Record(ctx, corpus)
	if err != nil {
		return nil, err
	}
	if !remember {
		return s.readView(ctx, record)
	}
	return s.views.get(ctx, viewKey{record.Name, record.Generation, record.Changes}, func() (*view, error) { return s.readView(ctx, record) })
}

// readView reads the shape of the tree, and again if a newer generation was published meanwhile: its publisher deletes what
// it dropped.
func (s *Service) readView(ctx context.Context, record *levels.Corpus) (*view, error) {
	for {
		v, err := s.readOnce(ctx, record)
		if err != nil {
			return nil, err
		}
		now, err := s.Record(ctx, record.Name)
		if err != nil || now.Generation == record.Generation {
			return v, err
		}
		record = now
	}
}

func (s *Service) readOnce(ctx context.Context, record *levels.Corpus) (*view, error) {
	v := &view{corpus: record.Name, generation: record.Generation, byID: map[tree.ID]*shape{}}
	kids := map[*shape][]tree.ID{}
	err := s.deps.Store.Each(ctx, record.Name, store.AnyLevel().VisibleAt(record.Generation), store.Fields{}, func(n *tree.Node) error {
		x := &shape{id: n.ID, level: n.Level, document: n.DocumentID, index: n.ChunkIndex}
		v.all = append(v.all, x)
		v.byID[n.ID] = x
		if n.Level > 0 {
			x.index = -1
			kids[x] = n.Children
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(v.all, func(a, b *shape) int {
		if a.level != b.level {
			return a.level - b.level
		}
		return a.id.Compare(b.id)
	})
	for _, x := range v.all {
		for _, id := range kids[x] {
			if child := v.byID[id]; child != nil {
				x.children = append(x.children, child)
				child.parents = append(child.parents, x)
			}
		}
	}
	return v, nil
}

// find looks a node up by what a person may type.
func (v *view) find(name string) (*shape, error) {
	var found []*shape
	for _, s := range v.all {
		n := tree.Node{ID: s.id, Level: s.level}
		if strings.EqualFold(n.ClusterID(), name) || strings.HasPrefix(s.id.String(), strings.ToLower(name)) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, api.Missingf("aerie tree prints ids", "generation %d of %s has no node %q", v.generation, v.corpus, name)
	}
	return nil, api.Usagef("type more of it", "%d nodes of %s start with %q", len(found), v.corpus, name)
}

// under returns the nodes within depth levels of the given ones, those included, by (level, id). Depth 0 is no bound.
func (v *view) under(roots []*shape, depth int) []*shape {
	in := map[*shape]bool{}
	at := roots
	for d := 0; len(at) > 0 && (depth == 0 || d < depth); d++ {
		var next []*shape
		for _, x := range at {
			if !in[x] {
				in[x] = true
				next = append(next, x.children...)
			}
		}
		at = next
	}
	return slices.DeleteFunc(slices.Clone(v.all), func(s *shape) bool { return !in[s] })
}

// chosen returns the nodes that a request is for.
func (v *view) chosen(req api.TreeRequest) ([]*shape, error) {
	list := v.all
	switch {
	case req.Root != "":
		root, err := v.find(req.Root)
		if err != nil {
			return nil, err
		}
		list = v.under([]*shape{root}, req.Depth)
	case req.Depth > 0:
		var top []*shape
		for _, x := range v.all {
			if len(x.parents) == 0 && (x.level > 0 || v.generation == 0) {
				top = append(top, x)
			}
		}
		list = v.under(top, req.Depth)
	}
	return list, nil
}

// after returns what of a list comes after a place.
func (v *view) after(list []*shape, p afterNode) ([]*shape, error) {
	if p.Generation != v.generation {
		return nil, moved()
	}
	at, _ := slices.BinarySearchFunc(list, p, func(x *shape, p afterNode) int {
		// The place itself was read, so it counts as before.
		return cmp.Or(cmp.Compare(x.level, p.Level), x.id.Compare(p.ID), -1)
	})
	return list[at:], nil
}

// Nodes hands on the nodes that a request is for. A leaf that is gone meanwhile is left out; a summary that is, because a newer
// generation was published, ends it with an error.
func (s *Service) Nodes(ctx context.Context, req api.TreeRequest, head func(api.TreeHead) error, emit func(*api.Node) error) error {
	v, err := s.view(ctx, req.Corpus, false)
	if err != nil {
		return err
	}
	list, err := v.chosen(req)
	if err != nil {
		return err
	}
	if err := head(api.TreeHead{Corpus: v.corpus, Generation: v.generation}); err != nil {
		return err
	}
	return s.emit(ctx, v, list, req, emit)
}

// NodePage returns the next nodes that a request is for.
func (s *Service) NodePage(ctx context.Context, req api.TreeRequest, at string, limit int) (api.NodePage, error) {
	var place afterNode
	if err := readCursor(at, &place); err != nil {
		return api.NodePage{}, err
	}
	v, err := s.view(ctx, req.Corpus, true)
	if err != nil {
		return api.NodePage{}, err
	}
	list, err := v.chosen(req)
	if err == nil && at != "" {
		list, err = v.after(list, place)
	}
	if err != nil {
		return api.NodePage{}, err
	}
	page := api.NodePage{TreeHead: api.TreeHead{Corpus: v.corpus, Generation: v.generation}, Nodes: []api.Node{}}
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1]
		page.NextCursor = cursor(afterNode{v.generation, last.level, last.id})
	}
	err = s.emit(ctx, v, list, req, func(n *api.Node) error { page.Nodes = append(page.Nodes, *n); return nil })
	return page, err
}

// emit reads the nodes of a list and hands them on.
func (s *Service) emit(ctx context.Context, v *view, list []*shape, req api.TreeRequest, emit func(*api.Node) error) error {
	documents := documentsUnder{}
	for page := range slices.Chunk(list, 512) {
		read, err := s.readPage(ctx, v, page, store.Fields{Text: req.Text, Vector: req.Vectors})
		if err != nil {
			return err
		}
		for i := range read {
			n := &read[i]
			node := nodeOf(n, v.byID[n.ID], documents)
			if err := emit(&node); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeOf is a node with its place in a view.
func nodeOf(n *tree.Node, x *shape, documents documentsUnder) api.Node {
	node := api.Node{
		ID: n.ID, Level: n.Level, ClusterID: n.ClusterID(), ChildIDs: idsOf(x.children), ParentIDs: idsOf(x.parents),
		DocumentIDs: documents.of(x), DocumentID: x.document, ChunkIndex: x.index, Tokens: n.Tokens, NLeaves: n.NLeaves, Born: n.Born,
		Context: n.Context, Source: n.Source, Text: n.Text, Vector: n.Vector, Carried: n.Carried(), UnseenTokens: n.Unseen,
	}
	if !n.IsLeaf() {
		node.Author = n.Writer()
	}
	return node
}

// Show returns one node.
func (s *Service) Show(ctx context.Context, corpus, name string) (api.Shown, error) {
	v, err := s.view(ctx, corpus, true)
	if err != nil {
		return api.Shown{}, err
	}
	x, err := v.find(name)
	if err != nil {
		return api.Shown{}, err
	}
	read, err := s.readPage(ctx, v, []*shape{x}, store.Fields{Text: true})
	if err == nil && len(read) == 0 {
		err = api.Missingf("aerie tree prints ids", "node %s of %s is gone", x.id, corpus)
	}
	if err != nil {
		return api.Shown{}, err
	}
	shown := api.Shown{TreeHead: api.TreeHead{Corpus: v.corpus, Generation: v.generation}, Node: nodeOf(&read[0], x, documentsUnder{})}
	shown.Previous, shown.Following = v.beside(x)
	return shown, nil
}

// beside returns the leaves before and after a leaf in its document; zero where there is none.
func (v *view) beside(x *shape) (previous, following tree.ID) {
	if x.level > 0 {
		return previous, following
	}
	for _, y := range v.all {
		switch {
		case y.level > 0:
			return previous, following
		case y.document == x.document && y.index == x.index-1:
			previous = y.id
		case y.document == x.document && y.index == x.index+1:
			following = y.id
		}
	}
	return previous, following
}

// readPage reads the nodes of a page of a view, in its order. A store may not find a node by its id at the very moment in which
// its life is changed, as it is when a generation is published, so what is missing is looked for once more.
func (s *Service) readPage(ctx context.Context, v *view, page []*shape, with store.Fields) ([]tree.Node, error) {
	ids := make([]tree.ID, len(page))
	for i, x := range page {
		ids[i] = x.id
	}
	read, err := s.deps.Store.Get(ctx, v.corpus, ids, with)
	if err != nil || len(read) == len(ids) {
		return read, err
	}
	if err := s.unmoved(ctx, v); err != nil {
		return nil, err
	}
	there := make(map[tree.ID]bool, len(read))
	for i := range read {
		there[read[i].ID] = true
	}
	missing := slices.DeleteFunc(ids, func(id tree.ID) bool { return there[id] })
	again, err := s.deps.Store.Get(ctx, v.corpus, missing, with)
	if err != nil || len(again) == 0 {
		return read, errors.Join(err, s.unmoved(ctx, v))
	}
	read = append(read, again...)
	slices.SortFunc(read, func(a, b tree.Node) int { return cmp.Or(cmp.Compare(a.Level, b.Level), a.ID.Compare(b.ID)) })
	return read, s.unmoved(ctx, v)
}

func moved() error {
	return &api.Error{Err: errMoved, Hint: "begin again, without a cursor", Exit: api.ExitFailed, Status: http.StatusGone}
}

// unmoved returns an error if the tree of a view is no more.
func (s *Service) unmoved(ctx context.Context, v *view) error {
	record, err := s.Record(ctx, v.corpus)
	if err == nil && record.Generation != v.generation {
		err = moved()
	}
	return err
}

// TreeHash returns a hash of what readers see.
func (s *Service) TreeHash(ctx context.Context, corpus string) (api.TreeHash, error) {
	record, err := s.Record(ctx, corpus)
	if err != nil {
		return api.TreeHash{}, err
	}
	hash, err := evaluate.TreeHash(ctx, s.deps.Store, corpus, record.Generation)
	if err == nil {
		err = s.unmoved(ctx, &view{corpus: corpus, generation: record.Generation})
	}
	return api.TreeHash{TreeHead: api.TreeHead{Corpus: corpus, Generation: record.Generation}, Hash: hash}, err
}

// Texts returns the texts of nodes.
func (s *Service) Texts(ctx context.Context, corpus string, ids []tree.ID) (map[tree.ID]string, error) {
	record, err := s.Record(ctx, corpus)
	if err != nil {
		return nil, err
	}
	texts := make(map[tree.ID]string, len(ids))
	for page := range slices.Chunk(ids, 512) {
		read, err := s.deps.Store.Get(ctx, corpus, page, store.Fields{Text: true})
		if err != nil {
			return nil, err
		}
		for i := range read {
			if read[i].VisibleAt(record.Generation) {
				texts[read[i].ID] = read[i].Text
			}
		}
	}
	return texts, nil
}

func idsOf(list []*shape) []tree.ID {
	ids := make([]tree.ID, len(list))
	for i, s := range list {
		ids[i] = s.id
	}
	slices.SortFunc(ids, tree.ID.Compare)
	return ids
}

// documentsUnder remembers which documents stand under each summary.
type documentsUnder map[*shape][]string

func (d documentsUnder) of(s *shape) []string {
	if s.level == 0 {
		return []string{s.document}
	}
	if known, ok := d[s]; ok {
		return known
	}
	all := []string{}
	for _, child := range s.children {
		all = append(all, d.of(child)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	d[s] = all
	return all
}
