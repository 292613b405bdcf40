package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

const (
	// longestWait is how long a leaf that is embedded waits for others to be written with.
	longestWait = 2 * time.Second
	// lastWrite is how long writing what is at hand may take after an interrupt.
	lastWrite = 30 * time.Second
	// documentsAtOnce is the number of documents that are settled together.
	documentsAtOnce = 256
)

// writer writes leaves, and settles the files whose leaves all stand.
type writer struct {
	*run
	ctx     context.Context // of the one call of stream that it lives for
	stop    func()          // ends the other stages: what they would still send can't be written
	leaves  []leaf
	settled []*document
	err     error // the first failure, after which events are only drained
}

// loop takes events until there are no more, whatever happens: the senders may rely on that.
func (w *writer) loop(in <-chan event) error {
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	for {
		select {
		case e, ok := <-in:
			if !ok {
				w.flush()
				w.settleFiles()
				return w.err
			}
			w.take(e)
		case <-timer.C:
			w.flush()
			timer.Reset(longestWait)
		}
	}
}

func (w *writer) take(e event) {
	w.leaves = append(w.leaves, e.leaves...)
	w.lose(e.lost, e.cause)
	if e.end != nil {
		w.docs.mu.Lock()
		e.end.ended = true
		w.docs.mu.Unlock()
		w.done(e.end)
	}
	if len(w.leaves) >= w.in.cfg.PutItems {
		w.flush()
	}
	if len(w.settled) >= documentsAtOnce {
		w.settleFiles()
	}
}

// done puts a file to those to be settled if nothing of it is on its way any more.
func (w *writer) done(doc *document) {
	w.docs.mu.Lock()
	defer w.docs.mu.Unlock()
	if doc.ended && doc.waiting == 0 {
		doc.ended = false // not twice
		w.settled = append(w.settled, doc)
	}
}

// lose gives leaves up.
func (w *writer) lose(leaves []leaf, cause error) {
	for i := range leaves {
		doc := leaves[i].doc
		w.docs.mu.Lock()
		doc.waiting--
		doc.lost++
		doc.failed = true
		if doc.cause == nil {
			doc.cause = cause
		}
		w.docs.mu.Unlock()
		w.done(doc)
	}
}

// flush writes the leaves at hand.
func (w *writer) flush() {
	for len(w.leaves) > 0 && w.err == nil {
		n := min(len(w.leaves), w.in.cfg.PutItems)
		w.put(w.leaves[:n])
		w.leaves = w.leaves[n:]
	}
	w.leaves = nil
}

// put writes one batch.
func (w *writer) put(leaves []leaf) {
	nodes := make([]tree.Node, len(leaves))
	grown := 0
	for i, l := range leaves {
		nodes[i] = l.node
		if !l.quiet {
			nodes[i].Updated = time.Now().Unix()
		}
		if !l.again || l.given && !l.quiet || l.anew {
			grown++
		}
	}
	var failed *store.PutError
	err := w.finally(func(ctx context.Context) error {
		if err := w.pin.record(ctx, w.in.corpora, grown); err != nil {
			return err
		}
		grown = 0 // if this is repeated
		return w.in.store.Put(ctx, w.req.Corpus, nodes)
	})
	if err != nil && !errors.As(err, &failed) {
		if !errors.Is(err, api.ErrPinned) {
			err = fmt.Errorf("ingest: corpus %s: %w", w.req.Corpus, err)
		}
		w.fail(err)
		return
	}
	var lost []leaf
	for _, l := range leaves {
		if failed != nil && failed.Failed[l.node.ID] != nil {
			lost = append(lost, l)
			continue
		}
		w.docs.mu.Lock()
		l.doc.waiting--
		switch {
		case l.quiet:
		case l.again:
			l.doc.touched++
		default:
			l.doc.added++
		}
		w.docs.mu.Unlock()
		w.report.Lock()
		if !l.again {
			w.report.Leaves.Added++
		}
		w.report.Unlock()
		w.done(l.doc)
	}
	if len(lost) > 0 {
		w.lose(lost, failed.Failed[lost[0].node.ID])
	}
	w.written.Add(int64(len(leaves) - len(lost)))
	w.progress()
}

func (w *writer) fail(err error) {
	w.err = err
	w.stop()
}

// finally runs do, and once more with a context of its own if an interrupt came between: vectors at hand may have been paid for.
func (w *writer) finally(do func(context.Context) error) error {
	err := w.ctx.Err()
	if err == nil {
		err = do(w.ctx)
	}
	if err == nil || w.ctx.Err() == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), lastWrite)
	defer cancel()
	return do(ctx)
}

// settleFiles settles the files that are complete.
func (w *writer) settleFiles() {
	if w.err == nil && w.ctx.Err() == nil {
		if err := w.settleDocuments(w.ctx, w.settled); err != nil {
			w.fail(err)
		}
	}
	w.settled = w.settled[:0]
}

func (r *run) progress() {
	r.in.cfg.Progress(Progress{Documents: int(r.settled.Load()), Leaves: int(r.written.Load())})
}
