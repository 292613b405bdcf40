package llm

import (
	"context"
	"errors"
	"strings"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// maxChatReply bounds a reply in bytes.
const maxChatReply = 16 << 20

// NewSummarizer returns the summarizer that the configuration names, with everything around it. The built-in one needs
// no journal: its answers cost nothing, and are the same each time.
func NewSummarizer(cfg SummariesConfig, deps Deps) (mapreduce.Summarizer, error) {
	deps = deps.filled()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Provider == ProviderExtractive {
		return NewExtractive(ExtractiveConfig{Counter: deps.Counter, Sentences: deps.Sentences}), nil
	}
	if b, ok := deps.Budget.(interface{ validate(model string) error }); ok {
		if err := b.validate(cfg.Model); err != nil {
			return nil, err
		}
	}
	key, err := readKey("summaries", cfg.APIKey, cfg.APIKeyFile)
	if err != nil {
		return nil, err
	}
	to, err := newEndpoint(endpointConfig{
		section: "summaries", base: cfg.BaseURL, key: key, timeout: cfg.Timeout, limit: maxChatReply, caFile: cfg.CAFile, headers: cfg.Headers,
		transport: deps.Transport,
	})
	if err != nil {
		return nil, err
	}
	chat := newChat(cfg, to, deps)
	checked := newChecked(newPatient(chat, to.name, cfg.Model, deps), cfg, deps)
	if deps.Journal == nil {
		return checked, nil
	}
	return newJournaled(checked, cfg, deps), nil
}

// NewDry returns a summarizer that makes no call and costs nothing: an answer in the journal counts as reused, and for any other
// call it makes up a text of the largest size, and counts what it would cost at most. mapreduce.Summarize with it
// says what a cluster will take. The journal may be nil.
func NewDry(cfg SummariesConfig, journal journal.Journal, counter mapreduce.Counter) mapreduce.Summarizer {
	return &dry{cfg: cfg, journal: journal, counter: counter}
}

type dry struct {
	cfg     SummariesConfig
	journal journal.Journal
	counter mapreduce.Counter
}

func (d *dry) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	if d.cfg.Provider == ProviderOpenAI && d.journal != nil {
		entry, err := d.journal.Lookup(ctx, d.cfg.CallKey(call))
		if err == nil {
			return mapreduce.Answer{Text: entry.Text, Usage: tree.Usage{Reused: 1}}, nil
		}
		if !errors.Is(err, journal.ErrNotFound) {
			return mapreduce.Answer{}, err
		}
	}
	in := call.InputTokens
	if in == 0 {
		in = d.counter.Count(mapreduce.Render(call.Prompt, call.Texts, call.MaxOutputTokens))
	}
	return mapreduce.Answer{
		Text:  strings.TrimSpace(strings.Repeat("text ", max(1, call.MaxOutputTokens*2/3))),
		Usage: tree.Usage{Calls: 1, InputTokens: in, OutputTokens: call.MaxOutputTokens},
	}, nil
}
