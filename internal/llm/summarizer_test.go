package llm_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

// counter counts like the endpoint of package llmtest, so that its windows mean the same.
type counter struct{}

func (counter) Count(s string) int { return llmtest.Tokens(s) }

// paid is a Journal in memory.
type paid struct {
	mu      sync.Mutex
	entries map[string]journal.Entry
	fail    error
}

// Erase implements journal.Journal; nobody calls it here.
func (j *paid) Erase(context.Context, string) (int, error) { return 0, nil }

func newJournal() *paid { return &paid{entries: map[string]journal.Entry{}} }

func (j *paid) Lookup(_ context.Context, key string) (journal.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return journal.Entry{}, j.fail
	}
	e, ok := j.entries[key]
	if !ok {
		return journal.Entry{}, fmt.Errorf("call %s: %w", key, journal.ErrNotFound)
	}
	return e, nil
}

func (j *paid) Record(ctx context.Context, key string, e journal.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.fail != nil {
		return j.fail
	}
	if _, ok := j.entries[key]; !ok {
		j.entries[key] = e
	}
	return nil
}

func (*paid) Begin(context.Context, string, tree.ID) (journal.Attempts, error) {
	panic("not used here")
}
func (*paid) End(context.Context, string, tree.ID, bool) (journal.Attempts, error) {
	panic("not used here")
}
func (*paid) Forget(context.Context, string, tree.ID) error { panic("not used here") }

func summaries(base string) llm.SummariesConfig {
	cfg := llm.DefaultSummaries()
	cfg.Provider, cfg.BaseURL, cfg.Model = llm.ProviderOpenAI, base, "fake"
	return cfg
}

// noWait makes the pauses between tries as short as they get.
func noWait() float64 { return 0 }

// passage returns text of about n tokens.
func passage(seed, n int) string {
	var b strings.Builder
	for i := 0; llmtest.Tokens(b.String()) < n; i++ {
		fmt.Fprintf(&b, "Sentence %d of passage %d tells what happened in town %d. ", i, seed, (seed*31+i*17)%997)
	}
	return b.String()
}

// What the acceptance of the whole system asks of this part: an endpoint with a small window that fails in every way at
// 4 % each; every cluster is summarized, no prompt exceeds the window, no bad answer is kept, and a second run is free.
func TestEveryClusterIsSummarizedThroughAllFaults(t *testing.T) {
	t.Parallel()
	s := llmtest.New(llmtest.Config{ContextTokens: 4096, Faults: llmtest.AllFaults(0.04), Seed: 1})
	defer s.Close()
	cfg := summaries(s.URL())
	cfg.ContextTokens = 4096
	cfg.CutOff = llm.CutOffRefuse // a trimmed answer isn't among those that the endpoint counts as good
	books := newJournal()
	stats := &llm.Stats{}
	deps := llm.Deps{Counter: counter{}, Journal: books, Stats: stats, Jitter: noWait, Log: quiet()}
	summarizer, err := llm.NewSummarizer(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	reduce, err := cfg.MapReduce(counter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const clusters = 60
	run := func(build string) (total tree.Usage, texts []string) {
		texts = make([]string, clusters)
		usages := make([]tree.Usage, clusters)
		var wg sync.WaitGroup
		for k := range 4 {
			wg.Go(func() {
				for i := k; i < clusters; i += 4 {
					var children []mapreduce.Child
					for j := range 5 + i%30 {
						children = append(children, mapreduce.Child{Text: passage(i*100+j, 100)})
					}
					r := reduce
					r.Build = build
					a, err := mapreduce.Summarize(t.Context(), summarizer, r, children)
					if err != nil {
						t.Errorf("cluster %d: %v", i, err)
					}
					texts[i], usages[i] = a.Text, a.Usage
				}
			})
		}
		wg.Wait()
		for _, u := range usages {
			total = total.Add(u)
		}
		return total, texts
	}
	usage, texts := run("b1")
	counts := s.Counts()
	if counts.Violations > 0 {
		t.Errorf("%d prompts exceeded the window, the largest had %d tokens", counts.Violations, counts.LargestPrompt)
	}
	if len(counts.Faults) < 7 {
		t.Errorf("only these faults occurred: %v", counts.Faults)
	}
	for i, text := range texts {
		if text == "" || strings.Contains(text, "think") || strings.Contains(text, "rror") || strings.Contains(text, "user wants") {
			t.Errorf("cluster %d has the summary %q", i, text)
		}
	}
	for key, e := range books.entries {
		if e.Text == "" || strings.Contains(e.Text, "<") {
			t.Errorf("the journal holds %q under %s", e.Text, key)
		}
	}
	if counts.ChatOK != len(books.entries) || counts.Repeated > 0 {
		t.Errorf("%d calls succeeded, %d were paid twice, %d answers are in the journal", counts.ChatOK, counts.Repeated, len(books.entries))
	}
	if usage.Calls < counts.ChatOK || usage.Reused != 0 {
		t.Errorf("usage %+v, %d calls succeeded", usage, counts.ChatOK)
	}

	again, texts2 := run("b2")
	if after := s.Counts(); after.Chat != counts.Chat || again.Calls != 0 || again.Reused != counts.ChatOK {
		t.Errorf("a second build made %d calls after %d, usage %+v", after.Chat-counts.Chat, counts.ChatOK, again)
	}
	for i := range texts {
		if texts[i] != texts2[i] {
			t.Errorf("cluster %d: %q, then %q", i, texts[i], texts2[i])
		}
	}
}
