package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/retrieve"
)

// TestMainJob runs the main job through the command line: ingest, plan, build, query, tree, status, delete, with the
// built-in providers and the real queue and store.
func TestMainJob(t *testing.T) {
	fixtures := fresh(t)

	got := decode[map[string]any](t, aerie(t, "ingest", fixtures, "-o", "json").want(t, exitDone))
	fields(t, got, "corpus", "documents.added", "documents.changed", "documents.unchanged", "documents.removed", "documents.failed",
		"leaves.added", "leaves.removed", "leaves.total", "skipped", "errors[].source")
	if added := got["documents"].(map[string]any)["added"]; added != 12.0 {
		t.Errorf("%v documents were added, want 12", added)
	}

	planned := aerie(t, "plan", "-o", "json").want(t, exitDone)
	fields(t, decode[map[string]any](t, planned), "corpus", "levels[].level", "levels[].nodes_in", "levels[].clusters", "levels[].calls",
		"levels[].input_tokens", "levels[].output_tokens", "levels[].largest_cluster_tokens", "levels[].estimate", "calls", "reused",
		"input_tokens", "output_tokens", "cost", "would_build", "why")
	estimate := decode[api.Estimate](t, planned)
	if !estimate.WouldBuild || len(estimate.Levels) == 0 || estimate.Levels[0].Estimate {
		t.Fatalf("the plan is %+v", estimate)
	}

	made := aerie(t, "build", "-o", "json").want(t, exitDone)
	fields(t, decode[map[string]any](t, made), "build", "corpus", "generation", "outcome", "why", "levels[].level", "levels[].nodes_in",
		"levels[].nodes_out", "levels[].calls", "levels[].reused", "levels[].input_tokens", "levels[].output_tokens",
		"levels[].largest_cluster_tokens", "levels[].mean_cluster_size", "levels[].seconds", "stopped_because", "calls", "reused",
		"input_tokens", "output_tokens", "cost", "seconds", "buried[].task")
	report := decode[api.BuildReport](t, made)
	if report.Outcome != api.OutcomeBuilt || report.Generation != 1 {
		t.Fatalf("the build ended as %s at generation %d", report.Outcome, report.Generation)
	}
	if got, want := report.Levels[0].Calls, estimate.Levels[0].Calls; got != want {
		t.Errorf("level 1 took %d calls, planned were %d", got, want)
	}

	again := decode[api.BuildReport](t, aerie(t, "build", "-o", "json").want(t, exitDone))
	if again.Outcome != api.OutcomeNothingToDo || again.Calls != 0 {
		t.Errorf("a second build: %s with %d calls", again.Outcome, again.Calls)
	}
	forced := decode[api.BuildReport](t, aerie(t, "build", "--force", "-o", "json").want(t, exitDone))
	if forced.Outcome != api.OutcomeBuilt || forced.Calls != 0 || forced.Generation != 2 {
		t.Errorf("a forced build: %s at generation %d with %d calls", forced.Outcome, forced.Generation, forced.Calls)
	}

	checkTree(t, report)
	checkQueries(t)
	checkStatus(t, report)

	// Every table goes to stdout, and nothing else does.
	for _, args := range []string{"plan", "build", "tree", "status", "query sequence", "ingest " + fixtures} {
		r := aerie(t, strings.Fields(args)...).want(t, exitDone)
		if r.stdout == "" || strings.Contains(r.stdout, "{") && strings.HasPrefix(r.stdout, "{") {
			t.Errorf("%s prints %q", args, r.stdout)
		}
	}

	gone := decode[map[string]any](t, aerie(t, "delete", filepath.Join(fixtures, "pep-0020.rst"), "-o", "json").want(t, exitDone))
	if removed := gone["documents"].(map[string]any)["removed"]; removed != 1.0 {
		t.Errorf("%v documents were removed, want 1", removed)
	}
	r := aerie(t, "delete", "pep-0020", "-o", "json").want(t, exitFailed)
	if r.stdout != "" {
		t.Errorf("deleting what isn't there prints %q", r.stdout)
	}
	aerie(t, "delete", "--all").want(t, exitUsage)
	aerie(t, "delete", "--all", "--yes").want(t, exitDone)
	aerie(t, "query", "sequence").want(t, exitFailed)
	left := decode[api.Status](t, aerie(t, "status", "-o", "json").want(t, exitDone))
	if len(left.Corpora) != 0 {
		t.Errorf("after delete --all there is %+v", left.Corpora)
	}
}

func checkTree(t *testing.T, report api.BuildReport) {
	t.Helper()
	r := aerie(t, "tree", "-o", "jsonl").want(t, exitDone)
	nodes := lines[api.Node](t, r)
	raw := lines[map[string]any](t, r)
	fields(t, raw[0], "id", "level", "cluster_id", "child_ids", "parent_ids", "document_ids", "tokens", "n_leaves", "born", "text")
	if _, ok := raw[0]["vector"]; ok {
		t.Error("vectors are there though nobody asked")
	}
	ordered := slices.IsSortedFunc(nodes, func(a, b api.Node) int {
		if a.Level != b.Level {
			return a.Level - b.Level
		}
		return a.ID.Compare(b.ID)
	})
	if !ordered {
		t.Error("the nodes are not ordered by (level, id)")
	}
	perLevel := map[int]int{}
	top := report.Levels[len(report.Levels)-1].Level
	for _, n := range nodes {
		perLevel[n.Level]++
		if n.Level < top && len(n.ParentIDs) == 0 {
			t.Errorf("node %s of level %d has no parent", n.ID, n.Level)
		}
		if (n.Level == 0) != (len(n.ChildIDs) == 0) || len(n.DocumentIDs) == 0 || n.Text == "" {
			t.Errorf("node %+v", n)
		}
	}
	for _, l := range report.Levels {
		if perLevel[l.Level] != l.NodesOut || perLevel[l.Level-1] != l.NodesIn {
			t.Errorf("level %d: %d of %d nodes in the tree, the build reports %d of %d", l.Level, perLevel[l.Level], perLevel[l.Level-1], l.NodesOut, l.NodesIn)
		}
	}
	all := decode[struct {
		Corpus     string     `json:"corpus"`
		Generation int        `json:"generation"`
		Nodes      []api.Node `json:"nodes"`
	}](t, aerie(t, "tree", "-o", "json").want(t, exitDone))
	if diff := cmp.Diff(nodes, all.Nodes); diff != "" {
		t.Errorf("json and jsonl differ (-jsonl +json)\n%s", diff)
	}
	with := lines[api.Node](t, aerie(t, "tree", "-o", "jsonl", "--vectors").want(t, exitDone))
	if len(with[0].Vector) == 0 || len(with) != len(nodes) {
		t.Errorf("--vectors: %d nodes, the first with %d numbers", len(with), len(with[0].Vector))
	}

	// A part of the tree, by id, by its start, and by cluster id.
	summary := nodes[len(nodes)-1]
	for _, root := range []string{summary.ID.String(), summary.ID.String()[:8], summary.ClusterID} {
		part := lines[api.Node](t, aerie(t, "tree", "-o", "jsonl", "--root", root).want(t, exitDone))
		leaves := 0
		for _, n := range part {
			if n.Level == 0 {
				leaves++
			}
		}
		if last := part[len(part)-1]; last.ID != summary.ID || leaves != summary.NLeaves {
			t.Errorf("--root %s ends with %s and has %d leaves, want %s and %d", root, last.ID, leaves, summary.ID, summary.NLeaves)
		}
	}
	aerie(t, "tree", "--root", "ffffffffffff").want(t, exitFailed)
	outline := aerie(t, "tree", "--depth", "0", "--limit", "0").want(t, exitDone).stdout
	for _, n := range nodes {
		if n.Level > 0 && !strings.Contains(outline, n.ClusterID) {
			t.Errorf("the outline lacks %s", n.ClusterID)
		}
	}
}

func checkQueries(t *testing.T) {
	t.Helper()
	one := aerie(t, "query", "octal", "literal", "-o", "json", "--budget", "300").want(t, exitDone)
	fields(t, decode[map[string]any](t, one), "query", "mode", "tokens", "hits[].id", "hits[].level", "hits[].score", "hits[].tokens",
		"hits[].text", "hits[].document_ids", "hits[].source_ids", "hits[].n_sources")
	found := decode[retrieve.Result](t, one)
	if found.Query != "octal literal" || found.Tokens > 300 || len(found.Hits) == 0 {
		t.Errorf("query %q: %d hits with %d tokens", found.Query, len(found.Hits), found.Tokens)
	}
	many := lines[retrieve.Result](t, aerieStdin(t, "octal literal\n\n  strings that end early\r\nlast, without an end", "query", "-", "-o", "jsonl", "--top-k", "2").want(t, exitDone))
	var asked []string
	for _, r := range many {
		asked = append(asked, r.Query)
		if len(r.Hits) == 0 || len(r.Hits) > 2 {
			t.Errorf("%q has %d hits", r.Query, len(r.Hits))
		}
	}
	if diff := cmp.Diff([]string{"octal literal", "strings that end early", "last, without an end"}, asked); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	whole := decode[retrieve.Result](t, aerieStdin(t, "octal\nliteral\n", "query", "-", "-o", "json").want(t, exitDone))
	if whole.Query != "octal\nliteral" {
		t.Errorf("the question from stdin is %q", whole.Query)
	}
	checkRefusal(t, aerieStdin(t, " \n", "query", "-").want(t, exitUsage), []string{"blank"})
	summaries := decode[retrieve.Result](t, aerie(t, "query", "python", "--min-level", "1", "-o", "json").want(t, exitDone))
	for _, h := range summaries.Hits {
		if h.Level < 1 || len(h.SourceIDs) != min(h.NSources, 100) {
			t.Errorf("hit %s of level %d with %d of %d sources", h.ID, h.Level, len(h.SourceIDs), h.NSources)
		}
	}
	boosted := decode[retrieve.Result](t, aerie(t, "query", "python", "--boost", "2", "-o", "json").want(t, exitDone))
	if boosted.Mode != retrieve.Boost {
		t.Errorf("--boost alone asks in mode %s", boosted.Mode)
	}
}

func checkStatus(t *testing.T, report api.BuildReport) {
	t.Helper()
	r := aerie(t, "status", "-o", "json").want(t, exitDone)
	fields(t, decode[map[string]any](t, r), "corpora[].corpus", "corpora[].documents", "corpora[].leaves", "corpora[].summaries",
		"corpora[].generation", "corpora[].baseline_leaves", "corpora[].growth", "corpora[].threshold", "corpora[].next_build",
		"corpora[].build.build", "corpora[].build.state", "corpora[].build.why", "corpora[].build.waiting_for",
		"corpora[].build.levels[].level", "corpora[].build.levels[].expected", "corpora[].build.levels[].done",
		"corpora[].build.levels[].queued", "corpora[].build.levels[].running", "corpora[].build.levels[].buried",
		"corpora[].build.calls", "corpora[].build.input_tokens", "corpora[].build.output_tokens", "corpora[].build.started",
		"corpora[].build.updated")
	s := decode[api.Status](t, r).Corpora[0]
	if s.Documents != 12 || s.Leaves != report.Levels[0].NodesIn || s.Generation != 2 {
		t.Errorf("status: %d documents, %d leaves, generation %d", s.Documents, s.Leaves, s.Generation)
	}
	for _, l := range s.Build.Levels {
		if l.Expected != l.Done+l.Queued+l.Running+l.Buried {
			t.Errorf("level %+v does not add up", l)
		}
	}
	checkRefusal(t, aerie(t, "status", "--corpus", "defualt").want(t, exitFailed), []string{`did you mean "default"?`})
}

// TestNothingThere: in an empty folder every command says what is missing, and makes nothing.
func TestNothingThere(t *testing.T) {
	fresh(t)
	for _, args := range []string{"query x", "tree", "delete x", "delete --all --yes", "plan", "build", "build --force", "retry --failed", "gc"} {
		r := aerie(t, strings.Fields(args)...).want(t, exitFailed)
		if r.stdout != "" || !strings.Contains(r.stderr, "aerie ingest") {
			t.Errorf("%s: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
	}
	s := decode[api.Status](t, aerie(t, "status", "-o", "json").want(t, exitDone))
	if len(s.Corpora) != 0 || exists(".aerie") {
		t.Errorf("status: %+v; the home exists: %t", s, exists(".aerie"))
	}
}

// TestA29MistypedCorpus: a command that names a corpus which isn't there says so in query's words and leaves with its code, and
// leaves everything as it is.
func TestA29MistypedCorpus(t *testing.T) {
	fresh(t)
	aerieStdin(t, `{"id":"a","text":"Herons wait."}`, "ingest", "-", "--corpus", "birds").want(t, exitDone)
	want := aerie(t, "query", "x", "--corpus", "brids").want(t, exitFailed)
	if !strings.Contains(want.stderr, `did you mean "birds"?`) {
		t.Error(want.stderr)
	}
	for _, args := range []string{
		"plan", "build", "build --force", "retry --failed", "retry --failed --cause x", "delete a", "delete --all --yes", "gc", "tree",
		"ask x", "status",
	} {
		if got := aerie(t, append(strings.Fields(args), "--corpus", "brids")...); got != want {
			t.Errorf("%s: exit %d, stdout %q\n%swant\n%s", args, got.code, got.stdout, got.stderr, want.stderr)
		}
	}
	if s := decode[api.Status](t, aerie(t, "status", "-o", "json").want(t, exitDone)); len(s.Corpora) != 1 || s.Corpora[0].Leaves != 1 {
		t.Errorf("%+v", s)
	}
}

// TestLeftOut: a broken row is reported with its line and counted, the rest goes in, and the exit code says so.
func TestLeftOut(t *testing.T) {
	fresh(t)
	rows := `{"id": "a", "text": "The first row is fine."}` + "\n{broken\n" + `{"id": "c", "text": "So is the third."}` + "\n"
	r := aerieStdin(t, rows, "ingest", "-", "-o", "json").want(t, exitLeftOut)
	got := decode[ingestResult](t, r)
	if got.Leaves.Total != 2 || len(got.Errors) != 1 || got.Errors[0].Line != 2 {
		t.Errorf("%d leaves, errors %+v", got.Leaves.Total, got.Errors)
	}
	table := aerieStdin(t, rows, "ingest", "-").want(t, exitLeftOut)
	if !strings.Contains(table.stdout, "-:2:") {
		t.Errorf("the table doesn't name the line: %s", table.stdout)
	}
}

// TestIngestAndBuild: --build builds by the growth rule, and its report stands beside that of the ingest.
func TestIngestAndBuild(t *testing.T) {
	fixtures := fresh(t)
	first := decode[ingestResult](t, aerie(t, "ingest", "--build", fixtures, "-o", "json").want(t, exitDone))
	if first.Build == nil || first.Build.Outcome != api.OutcomeBuilt {
		t.Fatalf("the build is %+v", first.Build)
	}
	var b strings.Builder
	for i := range 2 { // far below 10 % of the corpus
		fmt.Fprintf(&b, "{\"id\": \"row %d\", \"text\": \"A row of its own, number %d.\"}\n", i, i)
	}
	if err := os.WriteFile("more.jsonl", []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	second := decode[ingestResult](t, aerie(t, "ingest", "--build", "more.jsonl", "-o", "json").want(t, exitDone))
	if second.Build == nil || second.Build.Outcome != api.OutcomeNothingToDo || second.Leaves.Added != 2 {
		t.Errorf("after two rows more: %+v, %+v", second.Leaves, second.Build)
	}
}

// TestScopes: a tree for each document, and back; nothing of the other scope is left.
func TestScopes(t *testing.T) {
	fixtures := fresh(t)
	aerie(t, "ingest", fixtures).want(t, exitDone)
	for _, scope := range []string{"document", "corpus", "document"} {
		r := decode[api.BuildReport](t, aerie(t, "build", "--scope", scope, "-o", "json").want(t, exitDone))
		if r.Outcome != api.OutcomeBuilt {
			t.Fatalf("scope %s: %s: %s", scope, r.Outcome, r.Why)
		}
		crossing := 0
		for _, n := range lines[api.Node](t, aerie(t, "tree", "-o", "jsonl").want(t, exitDone)) {
			if n.Level > 0 && len(n.DocumentIDs) > 1 {
				crossing++
			}
		}
		if (crossing > 0) != (scope == "corpus") {
			t.Errorf("scope %s: %d summaries cross documents", scope, crossing)
		}
	}
}

// TestSameEverywhere: the tree doesn't depend on the number of cores, nor on the order in which documents came in.
func TestSameEverywhere(t *testing.T) {
	fixtures := fresh(t)
	files, err := filepath.Glob(filepath.Join(fixtures, "*.rst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	var want string
	for i, cores := range []string{"2", "1", "7"} {
		home, paths := fmt.Sprint("home", i), slices.Clone(files)
		if i == 2 {
			slices.Reverse(paths)
		}
		t.Setenv("GOMAXPROCS", cores)
		for _, path := range paths {
			if i < 2 {
				path = fixtures // all at once
			}
			start(t, "ingest", path, "--home", home).wait().want(t, exitDone)
			if i < 2 {
				break
			}
		}
		start(t, "build", "--home", home).wait().want(t, exitDone)
		got := start(t, "tree", "--output", "jsonl", "--home", home).wait().want(t, exitDone).stdout
		got = sourceOf.ReplaceAllString(got, "") // the folder, or each file
		if want == "" {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s cores, run %d: another tree (-first +this)\n%s", cores, i, diff)
		}
	}
}

func TestJudge(t *testing.T) {
	f := judge(interrupted(), fmt.Errorf("ingest: %w", interrupted().Err()))
	if f.exit != exitInterrupted {
		t.Errorf("an interrupted command exits with %d", f.exit)
	}
	var b strings.Builder
	f.tell(&b, true)
	var line map[string]any
	if err := json.Unmarshal([]byte(b.String()), &line); err != nil || line["exit"] != 130.0 {
		t.Errorf("%v: %s", err, b.String())
	}
}
