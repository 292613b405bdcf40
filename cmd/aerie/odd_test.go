package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// rows writes JSONL: one row for each text, with an embedding where there is one.
func rows(texts []string, vectors [][]float32) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	for i, text := range texts {
		row := map[string]any{"id": fmt.Sprintf("r%02d", i), "text": text}
		if vectors != nil {
			row["embedding"] = vectors[i]
		}
		if err := e.Encode(row); err != nil {
			panic(err)
		}
	}
	return b.String()
}

func sentences(n int) []string {
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("Sentence number %d speaks of %s and of %s.", i,
			[]string{"rivers", "mountains", "forests", "deserts"}[i%4], []string{"birds", "fish", "cats"}[i%3]))
	}
	return texts
}

// TestFewLeaves: corpora of 0 to 13 leaves build without an error: fewer than five leaves have no level, from five on
// there are at least two summaries, and every leaf stands below one.
// FAULTS: parthsarthi03/raptor 30, 16, 62, 23.
func TestFewLeaves(t *testing.T) {
	fresh(t)
	for n := range 14 {
		home := fmt.Sprint("home", n)
		r := aerieStdin(t, rows(sentences(n), nil), "ingest", "-", "--build", "-o", "json", "--home", home).want(t, exitDone)
		built := decode[ingestResult](t, r).Build
		switch {
		case n == 0 && built.Outcome == api.OutcomeNothingToDo:
			continue
		case n == 0 || built.Outcome != api.OutcomeBuilt || built.StoppedBecause == "":
			t.Fatalf("%d leaves: %s, stopped because %q", n, built.Outcome, built.StoppedBecause)
		}
		summaries := map[int]int{}
		for _, node := range lines[api.Node](t, aerie(t, "tree", "-o", "jsonl", "--home", home).want(t, exitDone)) {
			summaries[node.Level]++
			if n >= 5 && node.Level == 0 && len(node.ParentIDs) == 0 {
				t.Errorf("%d leaves: leaf %s has no parent", n, node.ID)
			}
		}
		if summaries[0] != n || (n < 5) != (summaries[1] == 0) || summaries[1] == 1 || 10*summaries[1] > 7*n {
			t.Errorf("%d leaves: %v nodes by level", n, summaries)
		}
	}
}

// TestOddInput: each kind of odd input is taken or left out as it should be; nothing else is lost, and what is left out is
// named with its line.
// FAULTS: infiniflow/ragflow 13722, 2861; parthsarthi03/raptor 81; HKUDS/LightRAG 2318.
func TestOddInput(t *testing.T) {
	fresh(t)
	eight := sentences(8)
	vectors := func(change func(v [][]float32)) [][]float32 {
		var v [][]float32
		for i := range eight {
			v = append(v, []float32{1, float32(i), 2})
		}
		change(v)
		return v
	}
	blank := append([]string{}, eight...)
	blank[3] = " \n\t "
	for name, c := range map[string]struct {
		input  string
		code   int
		leaves int
		want   string // in what is reported
	}{
		"fifty identical":        {rows(strings.Split(strings.Repeat("The very same text.|", 49)+"The very same text.", "|"), nil), exitDone, 50, ""},
		"nine alike and another": {rows(append(strings.Split(strings.Repeat("The very same text.|", 8)+"The very same text.", "|"), "Ships sail."), nil), exitDone, 10, ""},
		"blank":                  {rows(blank, nil), exitDone, 7, `"blank"`},
		"broken line":            {strings.Replace(rows(eight, nil), `"id":"r03"`, `"id":r03`, 1), exitLeftOut, 7, `"line": 4`},
		"zero vector":            {rows(eight, vectors(func(v [][]float32) { v[3] = []float32{0, 0, 0} })), exitLeftOut, 7, "zero"},
		"ragged vector":          {rows(eight, vectors(func(v [][]float32) { v[3] = []float32{1, 2} })), exitLeftOut, 7, "2 wide"},
		"not a number":           {strings.Replace(rows(eight, vectors(func([][]float32) {})), "[1,3,2]", "[1,NaN,2]", 1), exitLeftOut, 7, "NaN"},
		"reserved document":      {`{"id": "a", "document_id": "raptor://corpus-tree", "text": "Mine."}` + "\n", exitLeftOut, 0, "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			home := strings.ReplaceAll(name, " ", "-")
			r := aerieStdin(t, c.input, "ingest", "-", "-o", "json", "--home", home).want(t, c.code)
			if got := decode[ingestResult](t, r); got.Leaves.Total != c.leaves || !strings.Contains(r.stdout, c.want) {
				t.Errorf("%d leaves, want %d; want %q in\n%s", got.Leaves.Total, c.leaves, c.want, r.stdout)
			}
			if c.code == exitDone {
				built := decode[api.BuildReport](t, aerie(t, "build", "-o", "json", "--home", home).want(t, exitDone))
				if built.Outcome != api.OutcomeBuilt || len(built.Levels) == 0 {
					t.Errorf("%+v", built)
				}
			}
		})
	}
	if err := os.WriteFile("long.txt", []byte(strings.Repeat("漢", 60_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	long := decode[ingestResult](t, aerie(t, "ingest", "long.txt", "--build", "-o", "json", "--home", "long").want(t, exitDone))
	text := 0
	for _, n := range lines[api.Node](t, aerie(t, "tree", "-o", "jsonl", "--home", "long").want(t, exitDone)) {
		if n.Level == 0 {
			text += strings.Count(n.Text, "漢")
		}
	}
	if text != 60_000 || long.Build.Outcome != api.OutcomeBuilt {
		t.Errorf("%d of 60000 characters, build %s", text, long.Build.Outcome)
	}
}

// TestBroughtAlong: vectors that the caller brings are of a model that nobody knows by name. An embedder of their width
// may ask for them, another is refused, and keywords always work.
func TestBroughtAlong(t *testing.T) {
	fresh(t)
	s := llmtest.New(llmtest.Config{Width: 64})
	defer s.Close()
	texts := sentences(12)
	var vectors [][]float32
	for _, text := range texts {
		vectors = append(vectors, llmtest.Vector(text, 64))
	}
	aerieStdin(t, rows(texts, vectors), "ingest", "-").want(t, exitDone)
	narrow := llmtest.New(llmtest.Config{Width: 32})
	defer narrow.Close()
	other := []string{"--embeddings.provider", "openai", "--embeddings.model", "e", "--embeddings.base_url", narrow.URL()}
	checkRefusal(t, aerie(t, append([]string{"build"}, other...)...).want(t, exitUsage), []string{"64 numbers", "32"})
	words := decode[retrieve.Result](t, aerie(t, "query", "rivers", "--alpha", "0", "-o", "json").want(t, exitDone))
	model := []string{"--embeddings.provider", "openai", "--embeddings.model", "e", "--embeddings.base_url", s.URL(), "-o", "json"}
	built := decode[api.BuildReport](t, aerie(t, append([]string{"build"}, model...)...).want(t, exitDone))
	asked := decode[retrieve.Result](t, aerie(t, append([]string{"query", texts[5]}, model...)...).want(t, exitDone))
	if len(words.Hits) == 0 || built.Outcome != api.OutcomeBuilt || len(asked.Hits) == 0 || asked.Hits[0].Text != texts[5] {
		t.Errorf("%d hits by keywords, build %s, hits %+v", len(words.Hits), built.Outcome, asked.Hits)
	}
}
