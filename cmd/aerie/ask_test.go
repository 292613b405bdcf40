package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/answer"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// chatty starts an endpoint with an answer for questions about herons, and returns the flags that lead to it.
func chatty(t *testing.T, text string) (*llmtest.Server, []string) {
	t.Helper()
	fake := llmtest.New(llmtest.Config{Key: "sk-test", Chat: func(string, int) string { return text }})
	t.Cleanup(fake.Close)
	t.Setenv("AERIE_SUMMARIES_API_KEY", "sk-test")
	return fake, []string{"--summaries.provider", "openai", "--summaries.base_url", fake.URL(), "--summaries.model", "fake"}
}

func TestAsk(t *testing.T) {
	flock(t)
	fake, flags := chatty(t, "<think>Passage 1.</think>Herons wait for \x1b[31mfish [1]. They are grey. So are cranes [99].")
	put(t, "aerie.yaml", "build: {prices: {fake: {input: 1, output: 2}}}\n")
	ask := append([]string{"ask", "What do herons wait for?"}, flags...)
	r := aerie(t, append(ask, "-o", "json")...).want(t, exitDone)
	fields(t, decode[map[string]any](t, r), "question", "answer", "sentences[].text", "sentences[].citations", "citations[].n", "citations[].id",
		"citations[].level", "citations[].document_ids", "hits[].text", "abstained", "tokens", "input_tokens", "output_tokens", "model", "quoted",
		"generation", "cost.amount")
	got := decode[api.Answer](t, r)
	const text = "Herons wait for fish [1]. They are grey. So are cranes [99]."
	if got.Text != text || got.Abstained || got.Quoted || got.Model != "fake" || got.Calls != 1 || got.Cost == nil || got.Cost.Amount <= 0 {
		t.Errorf("%+v", got)
	}
	if len(got.Citations) != 1 || got.Citations[0].N != 1 || !cmp.Equal(got.Citations[0].DocumentIDs, []string{"heron"}) || got.Citations[0].ID != got.Hits[0].ID {
		t.Errorf("citations are %+v", got.Citations)
	}
	if len(got.Sentences) != 3 || !got.Sentences[0].FromCorpus || got.Sentences[2].FromCorpus {
		t.Errorf("sentences are %+v", got.Sentences)
	}
	// For people, in one piece and as it comes: the same, with the sources.
	whole := aerie(t, ask...).want(t, exitDone).stdout
	for _, want := range []string{text + "\n", "[1] level 0  heron  Herons wait in shallow water", "1 of 3 sentences from the corpus", "fake: 1 call", "USD"} {
		if !strings.Contains(whole, want) {
			t.Errorf("the answer lacks %q:\n%s", want, whole)
		}
	}
	if streamed := aerie(t, append(ask, "--stream")...).want(t, exitDone).stdout; streamed != whole {
		t.Errorf("streamed it is\n%s\nand whole\n%s", streamed, whole)
	}
	if strings.ContainsRune(whole, 0x1b) {
		t.Errorf("the terminal is steered: %q", whole)
	}
	if n := fake.Counts().Chat; n != 3 {
		t.Errorf("%d calls", n)
	}
	// A line for each question.
	all := lines[answer.Answer](t, aerieStdin(t, "What do herons wait for?\n\nDo owls listen?\n", append([]string{"ask", "-", "-o", "jsonl"}, flags...)...).want(t, exitDone))
	if len(all) != 2 || all[1].Question != "Do owls listen?" || all[0].Text != text {
		t.Errorf("%+v", all)
	}
	if one := aerieStdin(t, "What do herons\nwait for?\n", append([]string{"ask", "-", "-o", "json"}, flags...)...).want(t, exitDone); decode[api.Answer](t, one).Text != text {
		t.Error(one.stdout)
	}
	// The wrong key is an error, and never shown.
	t.Setenv("AERIE_SUMMARIES_API_KEY", "sk-wrong")
	if r := aerie(t, ask...).want(t, exitFailed); strings.Contains(r.stderr, "sk-wrong") || !strings.Contains(r.stderr, "summaries.api_key") || r.stdout != "" {
		t.Error(r)
	}
}

// TestAskAbstains: with nothing relevant there is no call and no answer, with the endpoint or without; the floor can be set.
func TestAskAbstains(t *testing.T) {
	flock(t)
	fake, flags := chatty(t, "Lima [1].")
	const question = "What is the capital of Peru?"
	for _, more := range [][]string{nil, flags} {
		r := aerie(t, append([]string{"ask", question, "-o", "json"}, more...)...).want(t, exitDone)
		got := decode[api.Answer](t, r)
		if !got.Abstained || got.Text != answer.Abstention || got.Why == "" || got.Calls != 0 {
			t.Errorf("%+v", got)
		}
		var raw map[string]any
		if err := json.Unmarshal([]byte(r.stdout), &raw); err != nil || raw["sentences"] == nil || raw["citations"] == nil {
			t.Errorf("%v: lists are null in %s", err, r.stdout)
		}
		if told := aerie(t, append([]string{"ask", question}, more...)...).want(t, exitDone).stdout; !strings.HasPrefix(told, answer.Abstention+"\n") || !strings.Contains(told, "no answer, since") {
			t.Error(told)
		}
	}
	if n := fake.Counts().Chat; n != 0 {
		t.Errorf("%d calls", n)
	}
	got := decode[api.Answer](t, aerie(t, append([]string{"ask", question, "--min-similarity", "-1", "-o", "json"}, flags...)...).want(t, exitDone))
	if got.Abstained || got.Text != "Lima [1]." {
		t.Errorf("%+v", got)
	}
	got = decode[api.Answer](t, aerie(t, "ask", "--document", "nowhere", "What do herons wait for?", "-o", "json").want(t, exitDone))
	if !got.Abstained || got.Why != "nothing was found" {
		t.Errorf("%+v", got)
	}
}

// TestAskQuotes: without a chat model the answer is quoted, and says so.
func TestAskQuotes(t *testing.T) {
	flock(t)
	got := decode[api.Answer](t, aerie(t, "ask", "What do owls listen for?", "--max-level", "0", "--explain", "-o", "json").want(t, exitDone))
	if !got.Quoted || got.Text != "Owls listen for voles in the dark of winter. [1]" || got.Citations[0].DocumentIDs[0] != "owl" || got.Explain == nil {
		t.Errorf("%+v", got)
	}
	told := aerie(t, "ask", "What do owls listen for?", "--max-level", "0", "--explain", "--stream").want(t, exitDone).stdout
	for _, want := range []string{got.Text + "\n", "quoted from the corpus", "summaries.provider is extractive", "chosen"} {
		if !strings.Contains(told, want) {
			t.Errorf("the answer lacks %q:\n%s", want, told)
		}
	}
}

func TestAskRefuses(t *testing.T) {
	fresh(t)
	checkRefusal(t, aerie(t, "ask", "why?").want(t, exitFailed), []string{"there is no corpus"})
	flock(t)
	for args, want := range map[string][]string{
		"ask":                               {"needs a question"},
		"ask --mode fuzzy x":                {`mode "fuzzy"`},
		"ask --mode collapsed --boost 2 x":  {"--boost has no effect"},
		"ask --min-similarty 1 x":           {"did you mean --min-similarity?"},
		"ask --min-similarity 2 x":          {"--min-similarity is 2", "between -1"},
		"ask --min-similarity NaN x":        {"--min-similarity is NaN"},
		"ask --min-similarity much x":       {"a number"},
		"ask --summaries.prompt {chunks} x": {"has no effect here"},
		"ask --stream -o json x":            {"--stream"},
		"ask --summaries.provider openai x": {"summaries.base_url is not set"},
		"ask --max-output-tokens 0 x":       {"summaries.max_output_tokens is 0"},
		"ask --corpus defaultt x":           nil,
	} {
		r := aerie(t, strings.Fields(args)...)
		if want == nil {
			checkRefusal(t, r.want(t, exitFailed), []string{`did you mean "default"?`})
			continue
		}
		checkRefusal(t, r.want(t, exitUsage), want)
	}
	// An endpoint that isn't there is a dependency that can't be reached.
	r := aerie(t, "ask", "What do herons wait for?", "--summaries.provider", "openai", "--summaries.base_url", "http://127.0.0.1:1", "--summaries.model", "m")
	if r.want(t, exitUnreachable); r.stdout != "" {
		t.Error(r.stdout)
	}
}

// TestAskRefusal: a model that refuses gives no answer.
func TestAskRefusal(t *testing.T) {
	flock(t)
	_, flags := chatty(t, "I'm sorry, but I can't help with that.")
	r := aerie(t, append([]string{"ask", "What do herons wait for?"}, flags...)...).want(t, exitFailed)
	checkRefusal(t, r, []string{"a refusal", "I'm sorry"})
}

func TestFlow(t *testing.T) {
	for _, c := range []struct {
		width int
		want  string
	}{{0, "one two three\n\nfour five"}, {9, "one two \nthree\n\nfour five"}, {4, "one \ntwo \nthree\n\nfour \nfive"}} {
		var b bytes.Buffer
		f := &flow{w: &b, width: c.width}
		for _, piece := range []string{"one two", " three", "\n\nfour ", "five"} {
			f.write(piece)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" || f.err != nil {
			t.Errorf("width %d: %v (-want +got):\n%s", c.width, f.err, diff)
		}
	}
}
