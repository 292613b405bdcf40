package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// birds is a corpus of a few leaves, so that what each arm finds can be told by hand.
const birds = `{"source":"x","id":"heron","text":"Herons wait in shallow water for fish."}
{"id":"kite","text":"Kites circle over fields and look for mice."}
{"id":"owl","text":"Owls listen for voles in the dark of winter."}
{"id":"lark","text":"Larks climb while they sing above meadows."}
{"id":"swift","text":"Swifts sleep on the wing and never land."}
{"id":"gull","text":"Gulls follow the plough for worms."}
`

const birdQuestions = `{"id":"q1","question":"What do herons wait for?","answer":"Herons wait for fish.","type":"food","evidence":["heron#0"]}
{"id":"q2","question":"Where do larks sing?","answer":"Above meadows.","type":"place","evidence":["lark#0"]}

{"question":"Who sleeps on the wing?","answer":"Swifts","type":"who"}
`

// flock makes a corpus of the birds, built.
func flock(t *testing.T, args ...string) {
	t.Helper()
	fresh(t)
	put(t, "birds.jsonl", birds)
	put(t, "questions.jsonl", birdQuestions)
	aerie(t, append([]string{"ingest", "birds.jsonl"}, args...)...).want(t, exitDone)
	aerie(t, append([]string{"build"}, args...)...).want(t, exitDone)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEval(t *testing.T) {
	flock(t)
	args := []string{"eval", "questions.jsonl", "--resamples", "100", "--out-svg", "arms.svg"}
	r := aerie(t, append(args, "--budget", "12,40", "-o", "json")...).want(t, exitDone)
	fields(t, decode[map[string]any](t, r), "config.seed", "config.resamples", "options_hash", "questions_hash", "questions", "types", "trees[].hash",
		"trees[].generation", "arms[].name", "arms[].request.mode", "arms[].all.coverage.mean", "arms[].types[].type", "arms[].all.p95_ms",
		"comparisons[].p_holm", "comparisons[].low", "version", "settings", "embedder", "vectors", "seconds")
	got := decode[evalResult](t, r)
	if got.Questions != 3 || len(got.Arms) != 16 || got.Embedder != llm.LexicalName || got.Vectors != nil || got.Settings["embeddings.provider"] != "lexical" {
		t.Errorf("%d questions, %d arms, %s, %v", got.Questions, len(got.Arms), got.Embedder, got.Vectors)
	}
	if len(got.Trees) != 1 || got.Trees[0].Corpus != "default" || got.Trees[0].Hash == "" {
		t.Errorf("trees %+v", got.Trees)
	}
	baseline := got.Arms[0]
	if !baseline.Baseline || baseline.Name != "leaf/similarity" || baseline.Group != "12 tokens" || *baseline.Request.MaxLevel != 0 {
		t.Errorf("the first arm is %+v", baseline)
	}
	// A leaf has 7 to 10 tokens, so that a budget of 12 holds one: the right one, of which each answer is a part.
	if s := baseline.All; s.Coverage == nil || s.Coverage.Mean != 1 || s.Recall.Mean != 1 || s.Recall.N != 2 || s.Hits != 1 {
		t.Errorf("the baseline achieved %+v", s)
	}
	if svg, err := os.ReadFile("arms.svg"); err != nil || !bytes.Contains(svg, []byte("collapsed/coverage")) {
		t.Errorf("the plot: %v", err)
	}
	again := decode[evalResult](t, aerie(t, append(args, "--budget", "12", "--budget", "40", "-o", "json")...).want(t, exitDone))
	if diff := cmp.Diff([]string{got.OptionsHash, got.QuestionsHash, got.Trees[0].Hash}, []string{again.OptionsHash, again.QuestionsHash, again.Trees[0].Hash}); diff != "" {
		t.Errorf("the same again has other hashes:\n%s", diff)
	}
	if diff := cmp.Diff(got.Comparisons, again.Comparisons); diff != "" {
		t.Errorf("the same again (-first +second):\n%s", diff)
	}
	table := aerie(t, append(args, "--budget", "12")...).want(t, exitDone).stdout
	for _, want := range []string{"3 questions", "12 tokens", "leaf/similarity", "hybrid 0.7", "baseline", "coverage by type", "food"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

// TestEvalArms: arms of flags and files, another corpus among them, and scores line by line.
func TestEvalArms(t *testing.T) {
	flock(t)
	aerie(t, "ingest", "birds.jsonl", "--corpus", "other").want(t, exitDone)
	put(t, "arms.yaml", "arms:\n  - leaf/similarity\n  - name: two levels\n    max-level: 1\n    documents: [heron, lark]\n    metadata: {source: x}\n")
	r := aerie(t, "eval", "questions.jsonl", "--resamples", "100", "--budget", "12", "--arms", "arms.yaml", "--baseline", "old",
		"--arm", "old: corpus=other alpha=.5, fusion=reciprocal", "--arm", "lifted: boost=2", "-o", "json").want(t, exitDone)
	got := decode[evalResult](t, r)
	var names, bases []string
	for _, a := range got.Arms {
		names = append(names, a.Name)
	}
	for _, c := range got.Comparisons {
		bases = append(bases, c.Baseline)
	}
	if diff := cmp.Diff([]string{"leaf/similarity", "two levels", "old", "lifted"}, names); diff != "" {
		t.Errorf("arms (-want +got):\n%s", diff)
	}
	if len(bases) == 0 || strings.Trim(strings.Join(bases, ""), "old") != "" {
		t.Errorf("baselines are %v", bases)
	}
	if req := got.Arms[1].Request; *req.MaxLevel != 1 || !cmp.Equal(req.Documents, []string{"heron", "lark"}) || req.Metadata["source"] != "x" {
		t.Errorf("two levels is %+v", req)
	}
	if req := got.Arms[2].Request; req.Corpus != "other" || *req.Alpha != 0.5 || *req.Fusion != retrieve.Reciprocal {
		t.Errorf("old is %+v", req)
	}
	if req := got.Arms[3].Request; *req.Mode != retrieve.Boost || *req.Boost != 2 {
		t.Errorf("lifted is %+v", req)
	}
	if len(got.Trees) != 2 || got.Trees[1].Corpus != "other" || got.Trees[1].Generation != 0 {
		t.Errorf("trees are %+v", got.Trees)
	}
	scores := lines[evalScore](t, aerie(t, "eval", "questions.jsonl", "--budget", "12", "--arm", "leaf/similarity", "-o", "jsonl").want(t, exitDone))
	if len(scores) != 3 || scores[0].Question != "q1" || scores[2].Question != "3" || scores[2].Recall != nil || *scores[0].Coverage != 1 {
		t.Errorf("scores %+v", scores)
	}
}

// TestEvalVectors brings the questions' vectors along, for a corpus whose vectors were: no embedder could be asked.
func TestEvalVectors(t *testing.T) {
	fresh(t)
	put(t, "birds.jsonl", `{"id":"a","text":"Herons eat fish.","embedding":[1,0,0]}
{"id":"b","text":"Owls eat voles.","embedding":[0,1,0]}
{"id":"c","text":"Swifts eat midges.","embedding":[0,0,1]}`)
	put(t, "questions.jsonl", `{"question":"What about the first?","answer":"fish"}
{"question":"What about the second?","answer":"voles"}`)
	vectors := func(path string, rows, width int, data ...float32) {
		var b bytes.Buffer
		if err := npy.Write(&b, rows, width, data); err != nil {
			t.Fatal(err)
		}
		put(t, path, b.String())
	}
	vectors("right.npy", 2, 3, 2, 0.1, 0, 0, 3, 0.1) // of any length: what counts is where they point
	vectors("short.npy", 1, 3, 1, 0, 0)
	vectors("narrow.npy", 2, 2, 1, 0, 0, 1)
	aerie(t, "ingest", "birds.jsonl").want(t, exitDone)
	args := []string{"eval", "questions.jsonl", "--budget", "6", "--arm", "leaf/similarity", "-o", "json"}
	got := decode[evalResult](t, aerie(t, append(args, "--vectors", "right.npy")...).want(t, exitDone))
	if got.Arms[0].All.Coverage.Mean != 1 || got.Vectors == nil || got.Vectors.Hash == "" || got.Embedder != "" {
		t.Errorf("%+v %+v", got.Arms[0].All.Coverage, got.Vectors)
	}
	for _, c := range []struct {
		file string
		want []string
	}{
		{"", []string{"brought along", "--vectors"}},
		{"short.npy", []string{"1 row", "2 questions"}},
		{"narrow.npy", []string{"2 wide", "3 wide"}},
		{"none.npy", []string{"none.npy"}},
	} {
		more := args
		if c.file != "" {
			more = append(args, "--vectors", c.file)
		}
		checkRefusal(t, aerie(t, more...).want(t, exitUsage), c.want)
	}
	// By keywords alone nothing needs to be embedded.
	aerie(t, "eval", "questions.jsonl", "--budget", "6", "--arm", "words: alpha=0").want(t, exitDone)
}

func TestEvalRefuses(t *testing.T) {
	flock(t)
	put(t, "bad.jsonl", "\n{\"answer\":\"a\"}\nno JSON\n{\"question\":\"q\"}\n")
	put(t, "empty.yaml", "# nothing\n")
	put(t, "key.yaml", "arms:\n  - name: x\n    bost: 2\n")
	put(t, "twice.yaml", "- name: x\n  boost: 2\n  boost: 3\n")
	put(t, "top.yaml", "arm: [leaf/similarity]\n")
	put(t, "nameless.yaml", "- boost: 2\n")
	put(t, "nested.yaml", "- name: x\n  boost: [2]\n")
	put(t, "broken.yaml", "- {name\n")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{}, []string{"needs one file of questions"}},
		{[]string{"nowhere.jsonl"}, []string{"nowhere.jsonl"}},
		{[]string{"bad.jsonl"}, []string{"bad.jsonl", "line 2: it has no question", "line 3", "line 4: it has neither an answer nor evidence"}},
		{[]string{"questions.jsonl", "--arm", "x: bost=2"}, []string{"bost is not an option", "did you mean boost?"}},
		{[]string{"questions.jsonl", "--arm", "leaf/similarty"}, []string{`did you mean "leaf/similarity"?`}},
		{[]string{"questions.jsonl", "--arm", "x: mode=colapsed"}, []string{`mode is "colapsed"`, "did you mean collapsed?"}},
		{[]string{"questions.jsonl", "--arm", "x: pack=coverge"}, []string{"did you mean coverage?"}},
		{[]string{"questions.jsonl", "--arm", "x: boost=big"}, []string{`boost is "big"`, "a number"}},
		{[]string{"questions.jsonl", "--arm", "x: min_level=.5"}, []string{"a whole number"}},
		{[]string{"questions.jsonl", "--arm", "x: min_level=2 max_level=1"}, []string{"min-level 2 is above max-level 1"}},
		{[]string{"questions.jsonl", "--arm", "x: stale=maybe"}, []string{"true or false"}},
		{[]string{"questions.jsonl", "--arm", "x: alpha=1 alpha=.5"}, []string{"alpha is set twice"}},
		{[]string{"questions.jsonl", "--arm", "x: budget=500"}, []string{"--budget"}},
		{[]string{"questions.jsonl", "--arm", "x: query=why"}, []string{"questions file"}},
		{[]string{"questions.jsonl", "--arm", "x: alpha"}, []string{`"alpha" is not OPTION=VALUE`}},
		{[]string{"questions.jsonl", "--arm", ": alpha=1"}, []string{"has no name"}},
		{[]string{"questions.jsonl", "--arm", "x: mode=collapsed boost=2"}, []string{"boost has no effect"}},
		{[]string{"questions.jsonl", "--arm", "x: alpha=1", "--arm", "x: alpha=0"}, []string{`an arm is named "x" already`}},
		{[]string{"questions.jsonl", "--arm", "x: corpus=defalt"}, []string{`no corpus "defalt"`, `did you mean "default"?`}},
		{[]string{"questions.jsonl", "--baseline", "leaf"}, []string{`--baseline "leaf"`, "did you mean"}},
		{[]string{"questions.jsonl", "--budget", "few"}, []string{`--budget is "few"`}},
		{[]string{"questions.jsonl", "--budget", "0"}, []string{"at least 1"}},
		{[]string{"questions.jsonl", "--budget", "250,250"}, []string{"names 250 twice"}},
		{[]string{"questions.jsonl", "--resamples", "3"}, []string{"resamples is 3"}},
		{[]string{"questions.jsonl", "--confidence", "1"}, []string{"confidence is 1"}},
		{[]string{"questions.jsonl", "--plot", "covrage"}, []string{"did you mean coverage?"}},
		{[]string{"questions.jsonl", "--out-svg", "no/such/folder.svg"}, []string{"--out-svg can't be written"}},
		{[]string{"questions.jsonl", "--arms", "nowhere.yaml"}, []string{"nowhere.yaml"}},
		{[]string{"questions.jsonl", "--arms", "empty.yaml"}, []string{"empty"}},
		{[]string{"questions.jsonl", "--arms", "key.yaml"}, []string{"key.yaml:3", "bost", "did you mean boost?"}},
		{[]string{"questions.jsonl", "--arms", "twice.yaml"}, []string{"twice.yaml:3", "set twice"}},
		{[]string{"questions.jsonl", "--arms", "top.yaml"}, []string{"top.yaml:1", `"arm"`, "arms"}},
		{[]string{"questions.jsonl", "--arms", "nameless.yaml"}, []string{"nameless.yaml:1", "no name"}},
		{[]string{"questions.jsonl", "--arms", "nested.yaml"}, []string{"nested.yaml:2", "single value"}},
		{[]string{"questions.jsonl", "--arms", "broken.yaml"}, []string{"not YAML"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			checkRefusal(t, aerie(t, append([]string{"eval"}, c.args...)...).want(t, exitUsage), c.want)
		})
	}
	if _, err := os.Stat("arms.svg"); err == nil {
		t.Error("a trial left a file behind")
	}
}

// TestEvalReadsStdin: - is stdin.
func TestEvalReadsStdin(t *testing.T) {
	flock(t)
	r := aerieStdin(t, birdQuestions, "eval", "-", "--budget", "12", "--arm", "leaf/similarity", "-o", "json").want(t, exitDone)
	if got := decode[evalResult](t, r); got.Questions != 3 {
		t.Errorf("%d questions", got.Questions)
	}
}

// TestArmOptionsAreRequestFields: every option that a request has can be written in an arm.
func TestArmOptionsAreRequestFields(t *testing.T) {
	values := map[string]string{
		"corpus": "c", "mode": "traversal", "pack": "similarity", "fusion": "reciprocal", "leaves_only": "true", "stale": "true", "documents": "d",
		"metadata": "", "where": "year>=2020",
	}
	standard := evaluate.StandardArms("c")
	if len(standard) != 8 {
		t.Errorf("%d standard arms", len(standard))
	}
	for _, name := range armOptionNames() {
		value, ok := values[name]
		if !ok {
			value = "1"
		}
		option := armOption{where: "here", key: name, values: []string{value}}
		if name == "metadata" {
			option.key, option.values = "metadata.year", []string{"2020"}
		}
		req := retrieve.Request{Corpus: "default"}
		if err := option.set(&req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
