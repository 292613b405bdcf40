package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestRefused gives the program command lines that are wrong. Each ends with exit 2, nothing on stdout, and one sentence
// that names what is wrong and what would be right.
func TestRefused(t *testing.T) {
	fresh(t)
	if err := os.WriteFile("bad.yaml", []byte("clustering:\n  max_cluster_token: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		// Commands and flags.
		{"biuld", []string{`"biuld"`, `did you mean "build"?`}},
		{"biuld --force", []string{`did you mean "build"?`}},
		{"Query x", []string{`did you mean "query"?`}},
		{"config shwo", []string{`"shwo"`, `did you mean "show"?`}},
		{"completion bsh", []string{`did you mean "bash"?`}},
		{"help biuld", []string{`did you mean "build"?`}},
		{"build --forse", []string{"--forse is not a flag", "did you mean --force?"}},
		{"build --max-cluster 3", []string{"did you mean --max-clusters?"}},
		{"build --corpsu x", []string{"did you mean --corpus?"}},
		{"query --max-tokens 5 x", []string{"--max-tokens is not a flag of aerie query"}}, // it would be the budget of a build
		{"build now", []string{"takes no argument", `"now"`}},
		{"build --keep-leaves false", []string{"takes no argument", "--flag=false"}},
		{"ingest", []string{"needs at least one file or folder"}},
		{"query", []string{"needs a question"}},
		{"cluster", []string{"needs one file"}},
		{"cluster a b", []string{"takes one file", `"b"`}},
		{"delete", []string{"needs at least one document id"}},
		{"delete a --all", []string{"not both"}},
		{"delete a --yes", []string{"--yes goes with --all"}},
		{"retry", []string{"needs --failed"}},
		{"tree --depth -1", []string{"--depth is -1", "0 (all) or more"}},
		{"tree --depth deep", []string{`--depth is "deep"`, "a whole number"}},
		{"tree --limit -2", []string{"--limit is -2"}},
		{"status --every 1ms", []string{"--every is 1ms", "at least 100ms"}},
		{"version --output jsn", []string{`--output is "jsn"`, "table, json, jsonl", "did you mean json?"}},
		{"status --log-level loud", []string{`--log-level is "loud"`}},
		{"status --log-format xml", []string{`--log-format is "xml"`}},
		{"status --home=", []string{"--home is empty"}},
		{"status --config nowhere.yaml", []string{"nowhere.yaml", "no such file"}},
		{"status --config bad.yaml", []string{"bad.yaml:2", "clustering.max_cluster_token", "did you mean clustering.max_cluster_tokens?"}},
		{"status --slots", []string{"--build-slots needs a value"}},
		// Options, by each of their names.
		{"cluster v.npy --max-clusters 1", []string{"clustering.max_clusters is 1 (--max-clusters)", "0 (no limit) or at least 2"}},
		{"build --clustering.max_clusters 1", []string{"clustering.max_clusters is 1"}},
		{"build --max_clusters=1", []string{"clustering.max_clusters is 1"}},
		{"plan --max-depth -1", []string{"build.max_depth is -1", "0 (no limit) or more"}},
		{"build --reduced-dimensionality 0", []string{"clustering.reduced_dimensionality is 0", "at least 1"}},
		{"build --target-cluster-size 1", []string{"clustering.target_cluster_size is 1", "at least 2"}},
		{"build --threshold 1", []string{"clustering.threshold is 1", "above 0 and below 1"}},
		{"cluster v.npy --mode rapter", []string{"clustering.mode", "raptor, reference, flat or kmeans", "did you mean raptor?"}},
		{"cluster v.npy --seed -1", []string{"clustering.seed", "not negative"}},
		{"cluster v.npy --memory-limit much", []string{"clustering.memory_limit", "4GB"}},
		{"build --summaries-context-tokens 150", []string{"summaries.context_tokens is 150", "max_output_tokens"}},
		{"build --summaries.prompt Summarize", []string{"summaries.prompt", "{chunks}"}},
		{"build --summaries.provider openai", []string{"summaries.base_url is not set"}},
		{"build --summaries.base_url localhost:8000", []string{"the scheme is missing", "http://localhost:8000"}},
		{"ingest --chunking-tokens 7 .", []string{"chunking.tokens is 7", "8 to 8192"}},
		{"ingest --chunking.tokens few .", []string{`chunking.tokens is "few"`, "a whole number"}},
		{"build --scope corpora", []string{"build.scope", "corpus or document"}},
		{"build --keep-leaves=false", []string{"build.keep_leaves is false", "document"}},
		{"build --growth-threshold 0", []string{"build.growth_threshold is 0", "above 0"}},
		{"build --min-chunks 1", []string{"build.min_chunks is 1", "at least 2"}},
		{"build --slots 0", []string{"build.slots is 0", "1 to 10000"}},
		{"build --max-attempts 0", []string{"build.max_attempts is 0", "at least 1"}},
		{"build --max-tokens -1", []string{"build.max_tokens is -1"}},
		{"build --max-cost -1", []string{"build.max_cost is -1"}},
		{"status --corpus a/b", []string{`corpus is "a/b"`}},
		{"build --queue.url nats://h:4222", []string{"state.url, store.url must be set", "one machine"}},
		// Options of queries.
		{"query --mode fuzzy x", []string{`mode "fuzzy"`, "collapsed"}},
		{"query --budget -1 x", []string{"budget is -1"}},
		{"query --top-k -1 x", []string{"top-k is -1"}},
		{"query --boost 0 x", []string{"boost is 0"}},
		{"query --min-level 3 --max-level 1 x", []string{"min-level 3 is above max-level 1"}},
		{"query --mode collapsed --boost 1.5 x", []string{"--boost has no effect"}},
		{"query --where year x", []string{"--where", "KEY=VALUE"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := aerie(t, strings.Fields(c.args)...).want(t, exitUsage)
			checkRefusal(t, r, c.want)
			asJSON := aerie(t, append(strings.Fields(c.args), "--output=json")...)
			if strings.Contains(c.args, "--output") {
				return
			}
			asJSON.want(t, exitUsage)
			var line map[string]any
			if err := json.Unmarshal([]byte(asJSON.stderr), &line); err != nil || strings.Count(asJSON.stderr, "\n") != 1 {
				t.Fatalf("stderr is not one line of JSON: %v\n%s", err, asJSON.stderr)
			}
			fields(t, line, "error", "hint", "exit")
			if line["exit"] != float64(exitUsage) || asJSON.stdout != "" {
				t.Errorf("exit %v on stdout %q", line["exit"], asJSON.stdout)
			}
		})
	}
}

func checkRefusal(t *testing.T, r result, want []string) {
	t.Helper()
	if r.stdout != "" {
		t.Errorf("stdout holds %q", r.stdout)
	}
	if n := strings.Count(r.stderr, "\n"); n > 2 { // the sentence and a hint
		t.Errorf("%d lines:\n%s", n, r.stderr)
	}
	for _, w := range want {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("stderr is\n  %swhich doesn't hold\n  %s", r.stderr, w)
		}
	}
}

func TestRefusedEnvironment(t *testing.T) {
	fresh(t)
	t.Setenv("AERIE_CLUSTERING_MAX_CLUSTERS", "1")
	checkRefusal(t, aerie(t, "plan").want(t, exitUsage), []string{"clustering.max_clusters is 1 (AERIE_CLUSTERING_MAX_CLUSTERS)"})
	t.Setenv("AERIE_CLUSTERING_MAX_CLUSTERS", "")
	t.Setenv("AERIE_CLUSTERING_MAX_CLUSTER", "2")
	checkRefusal(t, aerie(t, "plan").want(t, exitUsage), []string{"AERIE_CLUSTERING_MAX_CLUSTER is not known", "AERIE_CLUSTERING_MAX_CLUSTERS"})
	t.Setenv("AERIE_CLUSTERING_MAX_CLUSTER", "")
	t.Setenv("AERIE_OUTPUT", "xml")
	checkRefusal(t, aerie(t, "plan").want(t, exitUsage), []string{`--output is "xml"`})
}

// TestConfigErrorsAreNeverPassedOver: a wrong setting stops every command that reads the configuration.
func TestConfigErrorsAreNeverPassedOver(t *testing.T) {
	fresh(t)
	if err := os.WriteFile("aerie.yaml", []byte("build: {slots: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"ingest .", "delete x", "plan", "build", "query x", "tree", "cluster x.npy", "status", "retry --failed", "config show", "demo"} {
		checkRefusal(t, aerie(t, strings.Fields(args)...).want(t, exitUsage), []string{"build.slots is 0 (aerie.yaml:1)"})
	}
}
