package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// settle settles the documents that came as rows, which may have stood anywhere in the input.
func (r *run) settle(ctx context.Context) error {
	var docs []*document
	for _, doc := range r.docs.docs {
		if !doc.file {
			docs = append(docs, doc)
		}
	}
	slices.SortFunc(docs, func(a, b *document) int { return cmp.Compare(a.id, b.id) })
	for part := range slices.Chunk(docs, documentsAtOnce) {
		if err := r.settleDocuments(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// settleDocuments removes what the new versions of documents lack, and counts what became of each. All their leaves that
// could be written stand.
func (r *run) settleDocuments(ctx context.Context, docs []*document) error {
	if len(docs) == 0 {
		return nil
	}
	stale, err := r.stale(ctx, docs)
	if err != nil {
		return err
	}
	var gone, replaced []tree.ID
	changes := 0
	for i, doc := range docs {
		if len(doc.ids) == 0 { // nothing of it is left
			gone = append(gone, stale[i]...)
		} else {
			replaced = append(replaced, stale[i]...)
		}
		changes += max(0, len(stale[i])-doc.added)
	}
	if changes > 0 {
		if err := r.pin.record(ctx, r.in.corpora, changes); err != nil {
			return err
		}
	}
	if err := r.in.remove(ctx, r.req.Corpus, gone); err != nil {
		return err
	}
	if err := r.in.supersede(ctx, r.req.Corpus, replaced); err != nil {
		return err
	}
	r.docs.mu.Lock()
	r.report.Lock()
	r.report.Leaves.Removed += len(gone) + len(replaced)
	for i, doc := range docs {
		doc.count(&r.report.Documents, len(stale[i]))
	}
	r.report.Unlock()
	r.docs.mu.Unlock()
	for _, doc := range docs {
		r.reportLost(doc)
	}
	r.moved(docs)
	r.settled.Add(int64(len(docs)))
	r.progress()
	return nil
}

// stale returns, for each document, the leaves in the store that its new version lacks. Of one that is incomplete
// nothing is stale: what is missing may be what could not be read.
func (r *run) stale(ctx context.Context, docs []*document) ([][]tree.ID, error) {
	out := make([][]tree.ID, len(docs))
	if r.fresh {
		return out, nil
	}
	at := make(map[string]int, len(docs))
	fresh := map[tree.ID]bool{}
	filter := store.Leaves()
	r.docs.mu.Lock()
	for i, doc := range docs {
		if doc.failed {
			continue
		}
		at[doc.id] = i
		filter.Documents = append(filter.Documents, doc.id)
		for _, id := range doc.ids {
			fresh[id] = true
		}
	}
	r.docs.mu.Unlock()
	if len(filter.Documents) == 0 {
		return out, nil
	}
	err := r.in.store.Each(ctx, r.req.Corpus, filter, store.Fields{}, func(n *tree.Node) error {
		if i, ok := at[n.DocumentID]; ok && n.Died != tree.Deleted && !fresh[n.ID] {
			out[i] = append(out[i], n.ID)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ingest: corpus %s: %w", r.req.Corpus, err)
	}
	return out, nil
}

// count adds what became of a document of which some leaves were removed.
func (doc *document) count(d *api.DocumentCounts, removed int) {
	had := doc.old + removed
	switch {
	case doc.failed:
		d.Failed++
	case len(doc.ids) == 0 && had > 0:
		d.Removed++
	case len(doc.ids) == 0: // blank, and it always was
	case had == 0:
		d.Added++
	case doc.added+doc.touched+removed > 0:
		d.Changed++
	default:
		d.Unchanged++
	}
}

// reportLost tells which leaves of a document could not be embedded or written.
func (r *run) reportLost(doc *document) {
	if doc.lost == 0 {
		return
	}
	r.report.problem(corpus.Problem{
		Source: doc.source, Line: doc.line,
		Error: fmt.Sprintf("document %q lacks %d of its %d leaves, ingest it again: %v", doc.id, doc.lost, len(doc.ids), doc.cause),
	})
	doc.lost = 0
}

// giveUp reports the documents that lost leaves and were not settled, after the ingest was stopped.
func (r *run) giveUp() {
	var docs []*document
	for _, doc := range r.docs.docs {
		if doc.lost > 0 {
			docs = append(docs, doc)
		}
	}
	slices.SortFunc(docs, func(a, b *document) int { return cmp.Compare(a.id, b.id) })
	for _, doc := range docs {
		r.report.Documents.Failed++
		r.reportLost(doc)
	}
}
