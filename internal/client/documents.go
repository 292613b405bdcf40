package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/aerie-rag/aerie/internal/api"
)

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

// Ingest implements api.Documents.
func (c *Client) Ingest(ctx context.Context, req api.IngestRequest) (api.IngestReport, error) {
	query := url.Values{}
	if req.Context != nil {
		query.Set("context", strconv.FormatBool(*req.Context))
	}
	if req.ChunkTokens != 0 {
		query.Set("chunk_tokens", strconv.Itoa(req.ChunkTokens))
	}
	r, err := c.request(ctx, http.MethodPost, corpusPath(req.Corpus, "documents"), query, req.Stream)
	if err != nil {
		return api.IngestReport{}, err
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
		return api.IngestReport{}, err
	}
	defer res.Body.Close()
	var report api.IngestReport
	return report, c.decode(ctx, res, &report)
}

// Delete implements api.Documents.
func (c *Client) Delete(ctx context.Context, corpus string, ids []string) (api.IngestReport, error) {
	var report api.IngestReport
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
func (c *Client) DeleteCorpus(ctx context.Context, corpus string) (api.IngestReport, error) {
	var report api.IngestReport
	err := c.call(ctx, http.MethodDelete, corpusPath(corpus), nil, nil, &report)
	return report, err
}

// Documents implements api.Documents.
func (c *Client) Documents(ctx context.Context, req api.DocumentsRequest) (api.DocumentPage, error) {
	query := url.Values{"limit": {strconv.Itoa(req.Limit)}}
	if req.Prefix != "" {
		query.Set("prefix", req.Prefix)
	}
	if req.Source != "" {
		query.Set("source", req.Source)
	}
	if req.Cursor != "" {
		query.Set("cursor", req.Cursor)
	}
	var page api.DocumentPage
	err := c.call(ctx, http.MethodGet, corpusPath(req.Corpus, "documents"), query, nil, &page)
	return page, err
}
