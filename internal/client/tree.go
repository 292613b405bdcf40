package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/tree"
)

// nodesQuery is a request as a query of its URL.
func nodesQuery(req api.TreeRequest) url.Values {
	query := url.Values{}
	if req.Root != "" {
		query.Set("root", req.Root)
	}
	if req.Depth > 0 {
		query.Set("depth", strconv.Itoa(req.Depth))
	}
	if !req.Text {
		query.Set("text", "false")
	}
	if req.Vectors {
		query.Set("vectors", "true")
	}
	return query
}

// NodePage implements api.Trees.
func (c *Client) NodePage(ctx context.Context, req api.TreeRequest, cursor string, limit int) (api.NodePage, error) {
	query := nodesQuery(req)
	query.Set("limit", strconv.Itoa(limit))
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	var page api.NodePage
	err := c.call(ctx, http.MethodGet, corpusPath(req.Corpus, "nodes"), query, nil, &page)
	return page, err
}

// Nodes implements api.Trees.
func (c *Client) Nodes(ctx context.Context, req api.TreeRequest, head func(api.TreeHead) error, emit func(*api.Node) error) error {
	r, err := c.request(ctx, http.MethodGet, corpusPath(req.Corpus, "nodes"), nodesQuery(req), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/x-ndjson")
	res, err := c.send(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	generation, err := strconv.Atoi(res.Header.Get("Aerie-Generation"))
	if err != nil {
		return c.strange(res)
	}
	if err := head(api.TreeHead{Corpus: req.Corpus, Generation: generation}); err != nil {
		return err
	}
	lines := json.NewDecoder(bufio.NewReaderSize(res.Body, 64<<10))
	for {
		var n api.Node
		switch err := lines.Decode(&n); {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return c.unreachable(fmt.Errorf("the tree broke off: %w", err))
		}
		if err := emit(&n); err != nil {
			return err
		}
	}
}

// Show implements api.Trees.
func (c *Client) Show(ctx context.Context, corpus, node string) (api.Shown, error) {
	var shown api.Shown
	err := c.call(ctx, http.MethodGet, corpusPath(corpus, "nodes", node), nil, nil, &shown)
	return shown, err
}

// TreeHash implements api.Trees.
func (c *Client) TreeHash(ctx context.Context, corpus string) (api.TreeHash, error) {
	var hash api.TreeHash
	err := c.call(ctx, http.MethodGet, corpusPath(corpus, "tree"), nil, nil, &hash)
	return hash, err
}

// Texts implements api.Trees.
func (c *Client) Texts(ctx context.Context, corpus string, ids []tree.ID) (map[tree.ID]string, error) {
	all := make(map[tree.ID]string, len(ids))
	for page := range slices.Chunk(ids, 10_000) {
		var found struct {
			Texts map[tree.ID]string `json:"texts"`
		}
		err := c.call(ctx, http.MethodPost, corpusPath(corpus, "nodes", "texts"), nil, map[string]any{"ids": page}, &found)
		if err != nil {
			return nil, err
		}
		for id, text := range found.Texts {
			all[id] = text
		}
	}
	return all, nil
}
