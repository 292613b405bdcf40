package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/aerie-rag/aerie/internal/api"
)

// Remote brings files of this machine into a corpus that is elsewhere.
type Remote struct {
	To api.Documents
	// Base is the directory that ids of files are relative to; see [Config].
	Base string
	// Progress, if not nil, is told now and then how much was read. It must be fast.
	Progress func(*Packed)
}

// Ingest reads what the request names here, and streams it there.
func (r Remote) Ingest(ctx context.Context, req Request) (api.IngestReport, error) {
	report, packed, err := r.stream(ctx, req)
	if err != nil || !req.Prune {
		return report, err
	}
	for _, e := range report.Errors { // rows are looked at there
		packed.files.broken[e.Source] = true
	}
	if report.ErrorCount > len(report.Errors) {
		return report, errors.New("ingest: the input has too many faults to tell what is gone; mend some and prune again")
	}
	p, err := newPruner(r.Base, req, packed.files)
	if err == nil {
		err = r.eachDocument(ctx, req.Corpus, p.look)
	}
	if err != nil {
		return report, err
	}
	for _, source := range p.left {
		report.Warnings = append(report.Warnings, api.InputError{Source: source, Error: sourceLeft})
	}
	for part := range slices.Chunk(p.gone, deleteAtOnce) {
		pruned, err := r.To.Delete(ctx, req.Corpus, part)
		report.Documents.Removed += pruned.Documents.Removed
		report.Leaves.Removed += pruned.Leaves.Removed
		if err != nil && !errors.Is(err, api.ErrUnknown) { // unknown: somebody else removed it
			return report, err
		}
		report.Leaves.Total = pruned.Leaves.Total
	}
	return report, nil
}

// deleteAtOnce is how many documents one request removes, so that its body stays small.
const deleteAtOnce = 1000

// stream sends the documents while they are read.
func (r Remote) stream(ctx context.Context, req Request) (api.IngestReport, *Packed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	type result struct {
		packed *Packed
		err    error
	}
	done := make(chan result, 1)
	go func() { // ended by the pipe at the latest; waited for below
		packed, err := Pack(ctx, req, r.Base, to, r.Progress)
		to.CloseWithError(err)
		done <- result{packed, err}
	}()
	report, err := r.To.Ingest(ctx, api.IngestRequest{Corpus: req.Corpus, Stream: from, ChunkTokens: req.ChunkTokens, Context: req.Context})
	from.CloseWithError(errAnswered)
	if err != nil {
		cancel() // standard input may never end
	}
	packing := <-done
	follows := errors.Is(packing.err, errAnswered) || errors.Is(packing.err, io.ErrClosedPipe)
	if packing.err != nil && !follows && !errors.Is(packing.err, context.Canceled) {
		err = packing.err // what came over the wire only follows
	}
	return report, packing.packed, err
}

// errAnswered ends the packing of what nobody reads any more.
var errAnswered = errors.New("the other side has answered")

// eachDocument calls fn with every document there.
func (r Remote) eachDocument(ctx context.Context, corpus string, fn func(known)) error {
	req := api.DocumentsRequest{Corpus: corpus, Limit: 100_000}
	for {
		page, err := r.To.Documents(ctx, req)
		if err != nil {
			return fmt.Errorf("listing the documents of %s: %w", corpus, err)
		}
		for _, d := range page.Documents {
			fn(known{d.ID, d.Source, d.Path})
		}
		if page.NextCursor == "" {
			return nil
		}
		req.Cursor = page.NextCursor
	}
}
