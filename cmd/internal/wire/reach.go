package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
)

// reach remembers which endpoint can't be reached, so that a build which waits for it can say so.
type reach struct {
	mu   sync.Mutex
	down string
}

func (r *reach) note(err error) {
	var call *llm.Error
	unreachable := errors.As(err, &call) && call.Kind == llm.Unreachable
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case unreachable:
		r.down = fmt.Sprintf("endpoint %s, which can't be reached: %s", call.Endpoint, call.Message)
	case err == nil:
		r.down = ""
	}
}

func (r *reach) waiting() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down == "" {
		return nil
	}
	return []string{r.down}
}

// watchedSummarizer and watchedEmbedder tell a reach how their calls went.
type watchedSummarizer struct {
	mapreduce.Summarizer
	reach *reach
}

func (w watchedSummarizer) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	answer, err := w.Summarizer.Summarize(ctx, call)
	w.reach.note(err)
	return answer, err
}

type watchedEmbedder struct {
	llm.Embedder
	reach *reach
}

func (w watchedEmbedder) Embed(ctx context.Context, passages []string) ([][]float32, error) {
	vectors, err := w.Embedder.Embed(ctx, passages)
	w.reach.note(err)
	return vectors, err
}
