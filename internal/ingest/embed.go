package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/tree"
)

// mostFailing is the number of calls to the embedder that may fail in a row before the ingest is stopped.
const mostFailing = 3

// embed embeds batches until there are no more.
func (r *run) embed(ctx context.Context, in <-chan []leaf, write chan<- event) error {
	for leaves := range in {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		refused, err := r.vectorize(ctx, leaves)
		switch {
		case err == nil:
			// Unconditionally: the vectors may have been paid for, and the writer takes what comes until the end.
			write <- event{leaves: withVectors(leaves)}
			for _, p := range refused {
				write <- event{lost: leaves[p.Index : p.Index+1], cause: p.Err}
			}
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, api.ErrPinned):
			return err
		}
		write <- event{lost: leaves, cause: err}
		r.firstFail.CompareAndSwap(nil, &err)
		if r.failing.Add(1) >= mostFailing || hopeless(err) {
			return err
		}
	}
	return nil
}

// passage is what is embedded of a leaf.
func passage(n *tree.Node) string {
	if n.Context == "" {
		return n.Text
	}
	return n.Context + "\n\n" + n.Text
}

// withVectors returns the leaves that have one.
func withVectors(leaves []leaf) []leaf {
	out := make([]leaf, 0, len(leaves))
	for _, l := range leaves {
		if l.node.Vector != nil {
			out = append(out, l)
		}
	}
	return out
}

// hopeless reports whether every call would fail as this one did.
func hopeless(err error) bool {
	call, ok := errors.AsType[*llm.Error](err)
	return ok && (call.Kind == llm.Auth || call.Kind == llm.Quota || call.Kind == llm.Unreachable)
}

// vectorize sets the vectors of the leaves, but for those that the embedder refuses by themselves.
func (r *run) vectorize(ctx context.Context, leaves []leaf) (refused []llm.PassageFailure, err error) {
	texts := make([]string, len(leaves))
	for i := range leaves {
		texts[i] = passage(&leaves[i].node)
	}
	vectors, err := r.in.embedder.Embed(ctx, texts)
	if some, ok := errors.AsType[*llm.PassageError](err); ok && len(some.Failed) < len(texts) {
		refused, err = some.Failed, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ingest: embed: %w", err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("ingest: embed: %s returned %d vectors for %d texts", r.pin.own, len(vectors), len(texts))
	}
	for _, p := range refused {
		vectors[p.Index] = nil
	}
	width := 0
	for i, v := range vectors {
		if v == nil && refused != nil {
			continue
		}
		if err := corpus.Unit(v); err != nil {
			return nil, fmt.Errorf("ingest: embed: %s returned a vector that can't be used: %w", r.pin.own, err)
		}
		if width == 0 {
			width = len(v)
		}
		if len(v) != width {
			return nil, fmt.Errorf("ingest: embed: %s returned vectors of %d and of %d values", r.pin.own, width, len(v))
		}
		leaves[i].node.Vector = v
	}
	if err := r.pin.embedded(width); err != nil {
		return nil, err
	}
	r.embedded.Add(1)
	r.failing.Store(0)
	return refused, nil
}
