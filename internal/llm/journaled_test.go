package llm_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestCallKey(t *testing.T) {
	cfg := summaries("http://a/v1")
	call := mapreduce.Call{Prompt: "Sum: {chunks}", Texts: []string{"one", "two"}, MaxOutputTokens: 50}
	key := cfg.CallKey(call)
	if len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" {
		t.Errorf("key %q", key)
	}
	same := map[string]func(*llm.SummariesConfig, *mapreduce.Call){
		"the address":    func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.BaseURL = "http://b/v1" },
		"the API key":    func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.APIKey = "k" },
		"the time-out":   func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.Timeout = 1 },
		"the window":     func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.ContextTokens = 99 },
		"the build":      func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.Build = "b" },
		"a count":        func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.InputTokens = 7 },
		"an empty extra": func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.Extra = map[string]any{} },
	}
	other := map[string]func(*llm.SummariesConfig, *mapreduce.Call){
		"the model":       func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.Model = "other" },
		"the temperature": func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.Temperature = 1 },
		"extra":           func(c *llm.SummariesConfig, _ *mapreduce.Call) { c.Extra = map[string]any{"top_p": 1} },
		"the prompt":      func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.Prompt = "{chunks}" },
		"the bound":       func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.MaxOutputTokens = 51 },
		"the texts":       func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.Texts = []string{"one", "three"} },
		"their order":     func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.Texts = []string{"two", "one"} },
		"their ends":      func(_ *llm.SummariesConfig, c *mapreduce.Call) { c.Texts = []string{"onet", "wo"} },
	}
	for name, change := range same {
		c, k := cfg, call
		if change(&c, &k); c.CallKey(k) != key {
			t.Errorf("%s changes the key", name)
		}
	}
	for name, change := range other {
		c, k := cfg, call
		if change(&c, &k); c.CallKey(k) == key {
			t.Errorf("%s doesn't change the key", name)
		}
	}
}

func TestJournalPaysOnce(t *testing.T) {
	s := llmtest.New(llmtest.Config{})
	defer s.Close()
	books := newJournal()
	withJournal := func(d *llm.Deps) { d.Journal = books }
	ask := func(build string) tree.Usage {
		t.Helper()
		// Another process, with another configuration that doesn't change the call.
		cfg := summaries(s.URL() + "/")
		cfg.APIKey = build
		a, err := summarizer(t, cfg, withJournal).Summarize(t.Context(), mapreduce.Call{
			Prompt: "{chunks}", Texts: []string{"A passage."}, MaxOutputTokens: 50, Build: build,
		})
		if err != nil {
			t.Fatal(err)
		}
		return a.Usage
	}
	paid := ask("b1")
	if diff := cmp.Diff(paid, ask("b1")); diff != "" || paid.Calls != 1 {
		t.Errorf("the build that paid sees another usage after a restart: %s", diff)
	}
	if diff := cmp.Diff(tree.Usage{Reused: 1}, ask("b2")); diff != "" {
		t.Error(diff)
	}
	if n := s.Counts().Chat; n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestJournalIsSingleFlight(t *testing.T) {
	started, release := make(chan struct{}, 9), make(chan struct{})
	var calls atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		calls.Add(1)
		started <- struct{}{}
		<-release
		io.WriteString(w, fine)
	})
	sum := summarizer(t, summaries(base), func(d *llm.Deps) { d.Journal = newJournal() })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a, err := ask(t, sum); err != nil || a.Text != "A summary." {
				t.Errorf("%q, %v", a.Text, err)
			}
		})
	}
	<-started
	// One that waits for another's call can stop waiting.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sum.Summarize(ctx, mapreduce.Call{Prompt: "Summarize: {chunks}", Texts: []string{"The first passage is here.", "The second one too."}, MaxOutputTokens: 50})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// FAULTS: microsoft/graphrag 1861.
func TestJournalNeverHoldsARefusedAnswer(t *testing.T) {
	for _, fault := range []llmtest.Fault{llmtest.EmptyAnswer, llmtest.OnlyReasoning, llmtest.CutOff, llmtest.Refuse, llmtest.ErrorBody, llmtest.NotJSON} {
		s := llmtest.New(llmtest.Config{Faults: map[llmtest.Fault]float64{fault: 1}})
		books := newJournal()
		if _, err := ask(t, summarizer(t, summaries(s.URL()), func(d *llm.Deps) { d.Journal = books })); err == nil {
			t.Errorf("%s: no error", fault)
		}
		if len(books.entries) > 0 {
			t.Errorf("%s: the journal holds %v", fault, books.entries)
		}
		s.Close()
	}
}

// A build that is stopped in the middle of a call still records what it has paid for.
func TestJournalRecordsWhenStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	books := newJournal()
	base := serve(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) { io.WriteString(w, fine) })
	next := &stopping{RoundTripper: transport(t), cancel: cancel}
	sum := summarizer(t, summaries(base), func(d *llm.Deps) { d.Journal, d.Transport = books, next })
	a, err := sum.Summarize(ctx, mapreduce.Call{Prompt: "{chunks}", Texts: []string{"x"}, MaxOutputTokens: 9})
	if err != nil || a.Text != "A summary." || len(books.entries) != 1 {
		t.Errorf("%q, %v, %d recorded", a.Text, err, len(books.entries))
	}
}

// stopping cancels a context once a reply has been read to its end.
type stopping struct {
	http.RoundTripper
	cancel func()
}

func (s *stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	// The request must not see the cancellation, or there would be no reply to record.
	res, err := s.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	if err == nil {
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		res.Body = io.NopCloser(strings.NewReader(string(body)))
		s.cancel()
	}
	return res, err
}

func TestJournalFailures(t *testing.T) {
	s := llmtest.New(llmtest.Config{})
	defer s.Close()
	books := newJournal()
	books.fail = errors.New("journal is away")
	_, err := ask(t, summarizer(t, summaries(s.URL()), func(d *llm.Deps) { d.Journal = books }))
	if !errors.Is(err, books.fail) || s.Counts().Chat != 0 {
		t.Errorf("without a journal %d calls were made: %v", s.Counts().Chat, err)
	}
	stats := &llm.Stats{}
	a, err := ask(t, summarizer(t, summaries(s.URL()), func(d *llm.Deps) { d.Journal, d.Stats = &recordless{newJournal()}, stats }))
	if err != nil || a.Text == "" || stats.JournalLost.Load() != 1 {
		t.Errorf("a paid answer is lost: %q, %v", a.Text, err)
	}
}

// recordless is a journal that takes nothing.
type recordless struct{ *paid }

func (recordless) Record(context.Context, string, journal.Entry) error {
	return errors.New("disk full")
}

// What a dry run foresees is what happens, down to the halves of a batch that a window is too small for.
func TestDryRunForesees(t *testing.T) {
	s := llmtest.New(llmtest.Config{ContextTokens: 2048})
	defer s.Close()
	cfg := summaries(s.URL())
	cfg.ContextTokens = 2048
	books := newJournal()
	reduce, err := cfg.MapReduce(counter{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := summarizer(t, cfg, func(d *llm.Deps) { d.Journal = books })
	for i := range 12 {
		var children []mapreduce.Child
		for j := range 3 * i {
			children = append(children, mapreduce.Child{Text: passage(i*100+j, 90)})
		}
		children = append(children, mapreduce.Child{Text: strings.Repeat("===== ", 20*i) + "a table"})
		reduce.Build = "b1"
		foreseen, err := mapreduce.Summarize(t.Context(), llm.NewDry(cfg, books, counter{}), reduce, children)
		if err != nil {
			t.Fatal(err)
		}
		made, err := mapreduce.Summarize(t.Context(), sum, reduce, children)
		if err != nil {
			t.Fatal(err)
		}
		if foreseen.Usage.Calls != made.Usage.Calls || foreseen.Usage.OutputTokens < made.Usage.OutputTokens {
			t.Errorf("cluster %d: foreseen %+v, used %+v", i, foreseen.Usage, made.Usage)
		}
		again, err := mapreduce.Summarize(t.Context(), llm.NewDry(cfg, books, counter{}), reduce, children)
		if want := (tree.Usage{Reused: made.Usage.Calls}); err != nil || again.Usage != want {
			t.Errorf("cluster %d: with the answers in the journal, foreseen %+v: %v", i, again.Usage, err)
		}
	}
	if v := s.Counts().Violations; v > 0 {
		t.Errorf("%d prompts exceeded the window", v)
	}
}
