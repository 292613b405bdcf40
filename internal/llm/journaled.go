package llm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// keyVersion changes when the same call would be sent to the model in other words.
const keyVersion = "aerie call 1"

// CallKey is the journal's key of a call: a hash of what decides the answer, that is of the model, the parameters, the
// prompt and the texts. Who asks, where the endpoint is and which key it wants have no part in it.
func (c SummariesConfig) CallKey(call mapreduce.Call) string {
	h := sha256.New()
	for _, s := range []string{keyVersion, c.Model, formatFloat(c.Temperature), canonicalJSON(c.Extra), strconv.Itoa(call.MaxOutputTokens), call.Prompt} {
		hashString(h, s)
	}
	for _, t := range call.Texts {
		hashString(h, t)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashString writes a length first, so that no two lists of strings hash alike.
func hashString(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}

// recordTimeout bounds the recording of an answer, which goes on when the build is being stopped.
const recordTimeout = 30 * time.Second

// Journaled is a Summarizer that makes no call whose answer is in the journal, and records each new one. Two equal calls
// at the same time in one process are one call.
type Journaled struct {
	next    mapreduce.Summarizer
	journal journal.Journal
	cfg     SummariesConfig
	deps    Deps
	flights flights
}

func newJournaled(next mapreduce.Summarizer, cfg SummariesConfig, deps Deps) *Journaled {
	return &Journaled{next: next, journal: deps.Journal, cfg: cfg, deps: deps, flights: flights{under: map[string]chan struct{}{}}}
}

// Summarize looks the call up, or makes it. An answer that this build has paid for already counts as its call, with its
// tokens; one of another build as reused.
func (j *Journaled) Summarize(ctx context.Context, call mapreduce.Call) (mapreduce.Answer, error) {
	key := j.cfg.CallKey(call)
	land, err := j.flights.takeOff(ctx, key)
	if err != nil {
		return mapreduce.Answer{}, err
	}
	defer land()
	entry, err := j.journal.Lookup(ctx, key)
	switch {
	case err == nil && strings.TrimSpace(entry.Text) != "":
		j.deps.Stats.Reused.Add(1)
		return answerOf(entry, call.Build), nil
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		return mapreduce.Answer{}, fmt.Errorf("llm: looking up call %.12s: %w", key, err)
	}
	answer, err := j.next.Summarize(ctx, call)
	if err != nil {
		return answer, err
	}
	j.record(ctx, key, answer, call)
	return answer, nil
}

// answerOf is the answer that an entry stands for.
func answerOf(e journal.Entry, build string) mapreduce.Answer {
	if e.Build != build {
		return mapreduce.Answer{Text: e.Text, Usage: tree.Usage{Reused: 1}}
	}
	return mapreduce.Answer{Text: e.Text, Usage: tree.Usage{
		Calls: max(1, e.Calls), InputTokens: e.InputTokens, OutputTokens: e.OutputTokens,
	}}
}

// record keeps a paid answer even when the build is being stopped. If it can't, the answer is still good: it is written
// into the node, and only a crash before that would have it paid again.
func (j *Journaled) record(ctx context.Context, key string, a mapreduce.Answer, call mapreduce.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	entry := journal.Entry{
		Text: a.Text, Calls: a.Usage.Calls, InputTokens: a.Usage.InputTokens, OutputTokens: a.Usage.OutputTokens,
		Build: call.Build, Corpus: call.Corpus, At: time.Now().UTC(),
	}
	if err := j.journal.Record(ctx, key, entry); err != nil {
		j.deps.Stats.JournalLost.Add(1)
		j.deps.Log.Warn("a paid answer was not recorded", "call", key[:12], "build", call.Build, "error", err)
	}
}

// flights lets one call of a key through at a time.
type flights struct {
	mu    sync.Mutex
	under map[string]chan struct{}
}

func (f *flights) takeOff(ctx context.Context, key string) (land func(), err error) {
	for {
		f.mu.Lock()
		busy, ok := f.under[key]
		if !ok {
			mine := make(chan struct{})
			f.under[key] = mine
			f.mu.Unlock()
			return func() {
				f.mu.Lock()
				delete(f.under, key)
				f.mu.Unlock()
				close(mine)
			}, nil
		}
		f.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

var _ mapreduce.Summarizer = (*Journaled)(nil)
