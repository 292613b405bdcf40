package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Query implements api.Queries.
func (c *Client) Query(ctx context.Context, corpus string, q api.Query) (retrieve.Result, error) {
	var result retrieve.Result
	err := c.call(ctx, http.MethodPost, corpusPath(corpus, "query"), nil, q, &result)
	return result, err
}

// Ask implements api.Queries.
func (c *Client) Ask(ctx context.Context, corpus string, q api.Ask, on func(answer.Sentence)) (api.Answer, error) {
	var out api.Answer
	if on == nil {
		err := c.call(ctx, http.MethodPost, corpusPath(corpus, "ask"), nil, q, &out)
		return out, err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return out, fmt.Errorf("client: %w", err)
	}
	req, err := c.request(ctx, http.MethodPost, corpusPath(corpus, "ask"), nil, bytes.NewReader(data))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.send(req)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	answered := false
	err = readEvents(res.Body, func(e event) error {
		switch e.name {
		case "sentence":
			var s api.Spoken
			if err := json.Unmarshal(e.data, &s); err != nil {
				return err
			}
			s.Sentence.Gap = s.Gap
			on(s.Sentence)
		case "problem":
			var p api.Problem
			if err := json.Unmarshal(e.data, &p); err != nil {
				return err
			}
			return p.Err()
		case "answer":
			answered = true
			return json.Unmarshal(e.data, &out)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err == nil && !answered:
		return out, c.unreachable(fmt.Errorf("the answer broke off"))
	}
	return out, err
}
