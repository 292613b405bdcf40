package main

import (
	"os"
	"strings"
	"testing"
)

const rivers = `{"id":"a","text":"The otter swims in the cold river every morning.","year":2019,"big":1746714878034235396,"tags":["x","y"]}
{"id":"b","text":"The heron stands by the river and waits for fish.","year":2021,"big":1746714878034235397,"day":"2026-11-30"}
{"id":"c","text":"The beaver builds a dam over the river.","year":2021.5,"lang":"de"}
`

// found are the documents of the hits, sorted by score, and what stands on stderr.
func found(t *testing.T, args ...string) (string, string) {
	t.Helper()
	r := aerie(t, append([]string{"query", "river"}, append(args, "-o", "json")...)...).want(t, exitDone)
	var ids []string
	for _, h := range decode[struct {
		Hits []struct {
			DocumentIDs []string `json:"document_ids"`
		} `json:"hits"`
	}](t, r).Hits {
		ids = append(ids, h.DocumentIDs...)
	}
	there := map[string]bool{}
	for _, id := range ids {
		there[id] = true
	}
	out := ""
	for _, id := range []string{"a", "b", "c"} {
		if there[id] {
			out += id
		}
	}
	return out, r.stderr
}

// TestC9IntegersThroughTheProgram: 64 bits go in and come out, and are found by their last digit.
func TestC9IntegersThroughTheProgram(t *testing.T) {
	fresh(t)
	bad := `{"id":"d","text":"too large","big":9223372036854775808}` + "\n"
	r := aerieStdin(t, rivers+bad, "ingest", "-").want(t, exitLeftOut)
	if !strings.Contains(r.stdout, `key "big" holds number 9223372036854775808`) || !strings.Contains(r.stdout, "64 bits") {
		t.Errorf("beyond 64 bits: %s", r.stdout)
	}
	if got, _ := found(t, "--where", "big=1746714878034235396"); got != "a" {
		t.Errorf("found %q, want a", got)
	}
	r = aerie(t, "query", "heron", "--where", "big>1746714878034235396", "-o", "json").want(t, exitDone)
	if !strings.Contains(r.stdout, "1746714878034235397") || strings.Contains(r.stdout, "1746714878034235396") {
		t.Errorf("digits are lost: %s", r.stdout)
	}
	if r = aerieStdin(t, rivers, "ingest", "-").want(t, exitDone); !strings.Contains(r.stdout, "3 unchanged") {
		t.Errorf("again: %s", r.stdout)
	}
}

// TestC21Where: operators, and a sentence for what finds nothing for a reason that a person doesn't see.
func TestC21Where(t *testing.T) {
	fresh(t)
	if err := os.WriteFile("rivers.jsonl", []byte(rivers), 0o600); err != nil {
		t.Fatal(err)
	}
	aerie(t, "ingest", "rivers.jsonl").want(t, exitDone)
	for where, want := range map[string]string{
		"year=2019": "a", "year!=2021": "ac", "year<2021": "a", "year<=2021": "ab", "year>2021": "c", "year >= 2021": "bc", "year in 2019,2021": "ab", "year in [2021.5]": "c",
		"day exists": "b", "day>=2026-01-01": "b", "lang!=de": "ab", "tags=x": "a", "tags!=x": "bc", "lang==de": "c", `lang in "de"`: "c",
	} {
		if got, _ := found(t, "--where", where); got != want {
			t.Errorf("%s: %q, want %q", where, got, want)
		}
	}
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--where", "year=2019", "--where", "year=2021"}, `for either write \"year in 2019,2021\"`},
		{[]string{"--where", "year>3000"}, "no leaf that the query may find has year > 3000"},
		{[]string{"--budget", "3"}, "doesn't fit into the budget of 3"},
	} {
		if got, stderr := found(t, test.args...); got != "" || !strings.Contains(stderr, test.says) {
			t.Errorf("%v: hits %q, %q; want %q", test.args, got, stderr, test.says)
		}
	}
	if got, _ := found(t, "--where", "tags=x", "--where", "tags=y"); got != "a" {
		t.Errorf("both tags: %q, want a", got)
	}
	for _, test := range []struct{ where, says string }{
		{"yaer=2019", `did you mean "year"?`}, {"yaer!=2019", `did you mean "year"?`}, {"year", "must be one of KEY=VALUE"}, {"=x", "must be one of"},
		{"year<true", "compares numbers and texts"}, {"big=9223372036854775808", "64 bits"},
	} {
		if r := aerie(t, "query", "river", "--where", test.where).want(t, exitUsage); !strings.Contains(r.stderr, test.says) {
			t.Errorf("%s: %s; want %q", test.where, r.stderr, test.says)
		}
	}
	for _, alpha := range []string{"0", "0.7"} {
		if r := aerie(t, "query", "???", "--alpha", alpha).want(t, exitDone); !strings.Contains(r.stderr, "holds no word") {
			t.Errorf("alpha %s: %s", alpha, r.stderr)
		}
	}
	aerieStdin(t, `{"id":"z","text":"no metadata here"}`, "ingest", "-", "--corpus", "bare").want(t, exitDone)
	if r := aerie(t, "query", "here", "--corpus", "bare", "--where", "year=1").want(t, exitUsage); !strings.Contains(r.stderr, `has metadata "year", nor any other`) {
		t.Errorf("no metadata at all: %s", r.stderr)
	}
}
