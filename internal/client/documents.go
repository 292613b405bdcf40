package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/ingest"
)

// Ingest reads what the request names here, and streams it to the coordinator.
func (c *Client) Ingest(ctx context.Context, req ingest.Request) (ingest.Report, error) {
	report, packed, err := c.stream(ctx, req)
	if err != nil || !req.Prune {
		return report, err
	}
	gone, err := ingest.Gone(c.cfg.Base, req.Paths, packed.Seen, func(prefix string, fn func(string) error) error {
		return c.eachDocument(ctx, req.Corpus, prefix, fn)
	})
	if err != nil || len(gone) == 0 {
		return report, err
	}
	for part := range slices.Chunk(gone, deleteAtOnce) {
		pruned, err := c.Delete(ctx, req.Corpus, part)
		report.Documents.Removed += pruned.Documents.Removed
		report.Leaves.Removed += pruned.Leaves.Removed
		if err != nil && !errors.Is(err, ingest.ErrUnknown) { // unknown: somebody else removed it
			return report, err
		}
		report.Leaves.Total = pruned.Leaves.Total
	}
	return report, nil
}

// deleteAtOnce is how many documents one request removes, so that its body stays small.
const deleteAtOnce = 1000

// stream sends the documents while they are read.
func (c *Client) stream(ctx context.Context, req ingest.Request) (ingest.Report, *ingest.Packed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	type result struct {
		packed *ingest.Packed
		err    error
	}
	done := make(chan result, 1)
	go func() { // ended by the pipe at the latest; waited for below
		packed, err := ingest.Pack(ctx, req, c.cfg.Base, to, c.progress)
		to.CloseWithError(err)
		done <- result{packed, err}
	}()
	report, err := c.post(ctx, req, from)
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
var errAnswered = errors.New("the coordinator has answered")

func (c *Client) progress(p *ingest.Packed) {
	if c.cfg.Packed != nil {
		c.cfg.Packed(p.Documents, p.Rows)
	}
}

// refusal finds out why a connection broke while documents went out. A proxy may take the body before the coordinator answers,
// and the answer is then lost with the connection: the same request without documents, which brings nothing in, is refused for the
// same reason. If it isn't, the connection broke for another.
func (c *Client) refusal(ctx context.Context, r *http.Request, broken error) error {
	again := r.Clone(ctx)
	again.Body, again.ContentLength = http.NoBody, 0
	again.Header.Del("Expect")
	res, err := c.send(again)
	if err == nil {
		_ = res.Body.Close()
		return broken
	}
	var e *api.Error
	if errors.As(err, &e) && e.Exit == api.ExitUnreachable {
		return broken
	}
	return err
}

func (c *Client) post(ctx context.Context, req ingest.Request, body io.Reader) (ingest.Report, error) {
	query := url.Values{}
	if req.ChunkTokens != 0 {
		query.Set("chunk_tokens", strconv.Itoa(req.ChunkTokens))
	}
	r, err := c.request(ctx, http.MethodPost, corpusPath(req.Corpus, "documents"), query, body)
	if err != nil {
		return ingest.Report{}, err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("Expect", "100-continue") // what is refused at once needs no documents
	res, err := c.send(r)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		err = c.refusal(ctx, r, err)
	}
	if err != nil {
		var e *api.Error
		if errors.As(err, &e) && e.Report != nil {
			return *e.Report, err
		}
		return ingest.Report{}, err
	}
	defer res.Body.Close()
	var report ingest.Report
	return report, c.decode(ctx, res, &report)
}

// Delete implements api.Documents.
func (c *Client) Delete(ctx context.Context, corpus string, ids []string) (ingest.Report, error) {
	var report ingest.Report
	err := c.call(ctx, http.MethodPost, corpusPath(corpus, "documents", "delete"), nil, map[string]any{"documents": ids}, &report)
	var e *api.Error
	if errors.As(err, &e) && e.Report != nil {
		report = *e.Report
	}
	return report, err
}

// Forget implements api.Documents.
func (c *Client) Forget(ctx context.Context, corpus string, ids []string) (api.Forgotten, error) {
	var out api.Forgotten
	err := c.call(ctx, http.MethodPost, corpusPath(corpus, "documents", "forget"), nil, map[string]any{"documents": ids}, &out)
	return out, err
}

// DeleteCorpus implements api.Documents.
func (c *Client) DeleteCorpus(ctx context.Context, corpus string) (ingest.Report, error) {
	var report ingest.Report
	err := c.call(ctx, http.MethodDelete, corpusPath(corpus), nil, nil, &report)
	return report, err
}

// Documents implements api.Documents: its pages are those of the API, which go on after an id only by a cursor, so that After must
// be a cursor here.
func (c *Client) Documents(ctx context.Context, req api.DocumentsRequest) (api.DocumentPage, error) {
	query := url.Values{"limit": {strconv.Itoa(req.Limit)}}
	if req.Prefix != "" {
		query.Set("prefix", req.Prefix)
	}
	if req.After != "" {
		query.Set("cursor", req.After)
	}
	var page api.DocumentPage
	err := c.call(ctx, http.MethodGet, corpusPath(req.Corpus, "documents"), query, nil, &page)
	page.More = page.NextCursor != ""
	return page, err
}

// eachDocument calls fn with the id of every document that starts with a prefix.
func (c *Client) eachDocument(ctx context.Context, corpus, prefix string, fn func(string) error) error {
	req := api.DocumentsRequest{Corpus: corpus, Prefix: prefix, Limit: 100_000}
	for {
		page, err := c.Documents(ctx, req)
		if err != nil {
			return fmt.Errorf("listing the documents of %s: %w", corpus, err)
		}
		for _, d := range page.Documents {
			if err := fn(d.ID); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		req.After = page.NextCursor
	}
}
