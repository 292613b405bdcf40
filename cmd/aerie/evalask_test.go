package main

import (
	"os"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/evaluate"
)

// TestSeeds8 (Seeds 8): answers are scored through each arm, a bad line is left out with exit 3, and a run whose results differ from
// those that were pinned fails and names what differs. FAULTS2 C22.
func TestSeeds8(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	aerie(t, "build").want(t, exitDone)
	const good = `{"id":"1","question":"what is a sequence","answer":["ordered values","sequence"]}
{"id":"2","question":"zzyzx quagga?","answer":null}
`
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile("q.jsonl", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good + "{\"question\": 5}\n")
	run := []string{"eval", "q.jsonl", "--ask", "--arm", "leaf/similarity", "--arm", "wide: pool=300", "-o"}
	r := aerie(t, append(run, "json")...).want(t, exitLeftOut)
	report := decode[askResult](t, r)
	if report.Questions != 2 || report.Wanted != 1 || len(report.Arms) != 2 || report.Arms[0].Group != "2000 tokens" {
		t.Fatalf("%+v", report.AskReport)
	}
	for _, a := range report.Arms {
		if a.Contains != 1 || a.F1 == 0 || a.RightAbstentions != 1 || a.WrongAbstentions != 0 || a.Failed != 0 {
			t.Errorf("%+v", a)
		}
	}
	if !strings.Contains(r.stderr, "line 3") {
		t.Error(r.stderr)
	}

	write(good)
	for _, kind := range [][]string{{"--ask"}, nil} { // answers, and hits
		pinned := append([]string{"eval", "q.jsonl", "--budget", "500", "--arm", "leaf/similarity", "-o", "jsonl", "--pin", "pin" + strings.Join(kind, "")}, kind...)
		first := aerie(t, pinned...).want(t, exitDone)
		aerie(t, pinned...).want(t, exitDone)
		if kind != nil {
			for _, line := range lines[evaluate.Reply](t, first) {
				if line.Arm != "leaf/similarity" || line.Wanted == line.Abstained {
					t.Errorf("%+v", line)
				}
			}
		}
		if err := os.WriteFile("more.txt", []byte("A sequence is what a quagga follows. A zzyzx quagga is a sequence of ordered values and stripes."), 0o600); err != nil {
			t.Fatal(err)
		}
		aerie(t, "ingest", "more.txt").want(t, exitDone)
		if r := aerie(t, pinned...).want(t, exitFailed); !strings.Contains(r.stderr, "differ from pin") || !strings.Contains(r.stderr, "question ") {
			t.Error(r.stderr)
		}
		aerie(t, "delete", "more.txt").want(t, exitDone)
		aerie(t, pinned...).want(t, exitDone)
	}
}
