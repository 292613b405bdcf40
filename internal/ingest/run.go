package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/store"
)

// run is one call of Ingest. Four stages work at once, each in goroutines of its own: read (and cut), compare with the
// store, embed, write. Only the last two may be many leaves ahead of each other, and by bounded channels.
type run struct {
	in     *Ingester
	req    Request
	pin    pin
	report *tally
	docs   index
	ctx    context.Context // of the one call of Ingest that it lives for
	files  *inventory
	tokens int  // that leaves are filled up to
	fresh  bool // the corpus held no leaf when the ingest began, so there is nothing to compare with

	vectors *npy.File // nil if the request names none
	stdin   io.Reader
	spool   *os.File // stdin, if it must be read twice

	written   atomic.Int64 // leaves
	settled   atomic.Int64 // documents
	embedded  atomic.Int64 // calls that succeeded
	failing   atomic.Int64 // calls that failed since the last that succeeded
	firstFail atomic.Pointer[error]
}

// start checks the request as a whole, before anything is written. The run it returns is never nil.
func (in *Ingester) start(ctx context.Context, req Request) (*run, error) {
	r := &run{in: in, req: req, ctx: ctx, files: newInventory(""), report: newTally(req.Corpus)}
	if req.Stdin != nil {
		r.stdin = &interruptible{ctx: ctx, src: req.Stdin}
	}
	r.docs.docs, r.docs.chunks = map[string]*document{}, map[chunkKey]int{}
	r.pin.corpus, r.pin.own = req.Corpus, in.embedder.Name()
	if req.Corpus == "" || len(req.Paths) == 0 && req.Stream == nil {
		return r, errors.New("ingest: name a corpus and at least one file or folder")
	}
	if err := r.pin.load(ctx, in.corpora); err != nil {
		return r, err
	}
	if err := r.pin.check(); err != nil {
		return r, err
	}
	r.settleCut()
	n, err := in.store.Count(ctx, req.Corpus, store.Leaves())
	if err != nil {
		return r, fmt.Errorf("ingest: corpus %s: %w", req.Corpus, err)
	}
	r.fresh = n == 0
	if err := r.openVectors(ctx); err != nil {
		r.close()
		return r, err
	}
	return r, nil
}

// openVectors opens the file of vectors and checks that it has one for each row.
func (r *run) openVectors(ctx context.Context) error {
	if r.req.Vectors == "" || r.req.Stream != nil {
		return nil
	}
	var err error
	if r.vectors, err = npy.Open(r.req.Vectors); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	if slices.Contains(r.req.Paths, "-") && r.stdin != nil {
		if err := r.spoolStdin(); err != nil {
			return fmt.Errorf("ingest: keep standard input: %w", err)
		}
	}
	rows, err := corpus.CountRows(ctx, r.req.Paths, r.readOptions())
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	if r.spool != nil {
		if _, err := r.spool.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("ingest: keep standard input: %w", err)
		}
	}
	if rows != r.vectors.Len() {
		return fmt.Errorf("ingest: %s holds %d vectors, but the input has %d rows; there must be one vector for each row, in the same order", r.req.Vectors, r.vectors.Len(), rows)
	}
	return r.checkWidth(r.req.Vectors, r.vectors.Width())
}

// checkWidth refuses vectors that aren't as wide as the corpus's.
func (r *run) checkWidth(of string, width int) error {
	if r.pin.width != 0 && r.pin.width != width {
		return &pinError{fmt.Sprintf("ingest: %s holds vectors %d wide, but those of corpus %s are %d; name another --corpus", of, width, r.req.Corpus, r.pin.width)}
	}
	return nil
}

// spoolStdin copies standard input to a file: its rows must be counted before the first one is written.
func (r *run) spoolStdin() error {
	var err error
	if r.spool, err = os.CreateTemp("", "aerie-stdin-*"); err != nil {
		return err
	}
	if err := os.Remove(r.spool.Name()); err != nil { // it lives while it is open
		return err
	}
	if _, err := io.Copy(r.spool, r.stdin); err != nil {
		return err
	}
	r.stdin = r.spool
	_, err = r.spool.Seek(0, io.SeekStart)
	return err
}

func (r *run) close() {
	if r.vectors != nil {
		r.vectors.Close()
	}
	if r.spool != nil {
		r.spool.Close()
	}
}

func (r *run) readOptions() corpus.Options {
	return corpus.Options{
		Base:     r.in.cfg.Base,
		Stdin:    r.stdin,
		Problem:  r.refuse,
		Skip:     r.report.skip,
		Vectors:  r.checkWidth,
		Reading:  r.req.Reading,
		Identify: r.identify,
	}
}

// refuse reports something of the input that was left out.
func (r *run) refuse(p corpus.Problem) {
	r.report.problem(p)
	r.docs.fail(p)
	r.docs.mu.Lock()
	r.files.broken[p.Source] = true
	r.docs.mu.Unlock()
}

// stream runs the stages until the input is read and every leaf written or given up.
func (r *run) stream(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	read := make(chan *flow, 4)
	embed := make(chan []leaf, r.in.cfg.EmbedCalls)
	write := make(chan event, 4)

	g.Go(func() error {
		defer close(read)
		return r.read(ctx, read)
	})
	var senders sync.WaitGroup // to write
	senders.Add(1 + r.in.cfg.EmbedCalls)
	g.Go(func() error {
		defer senders.Done()
		defer close(embed)
		return r.compare(ctx, read, embed, write)
	})
	for range r.in.cfg.EmbedCalls {
		g.Go(func() error {
			defer senders.Done()
			return r.embed(ctx, embed, write)
		})
	}
	g.Go(func() error {
		senders.Wait()
		close(write)
		return nil
	})
	w := writer{run: r, ctx: ctx, stop: stop}
	g.Go(func() error { return w.loop(write) })
	err := g.Wait()
	if w.err != nil { // the others only followed
		err = w.err
	}
	if first := r.firstFail.Load(); err == nil && first != nil && r.embedded.Load() == 0 {
		err = *first // nothing at all could be embedded
	}
	return err
}
