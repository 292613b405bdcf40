package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config/keyflag"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/server"
)

// serveHome serves a home of its own over HTTP, as a coordinator would, and returns where. flags are those of its configuration.
func serveHome(t *testing.T, flags ...string) string {
	t.Helper()
	c := &cli{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: os.Environ(), flags: keyflag.Given{}, logTo: redirect{to: io.Discard}}
	root := c.root()
	root.SetArgs(append([]string{"config", "show", "--home", filepath.Join(t.TempDir(), "served")}, flags...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server.New(server.Config{Token: c.cfg.Server.Token.Reveal()}, h.Service, nil).Handler())
	t.Cleanup(func() {
		web.Close()
		h.close()
	})
	return web.URL
}

// sourceOf finds what the documents of nodes belong to.
var sourceOf = regexp.MustCompile(`"source": ?"[^"]*",`)

// What differs from run to run.
var differs = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]{6}`), "BUILD"},
	{regexp.MustCompile(`"(seconds|ms|p50_ms|p95_ms|mean_ms|gain)": ?[0-9.e-]+`), `"$1":0`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[0-9.]*(Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\d+\.\d+ s\b`), "0 s"},
	{regexp.MustCompile(` in (HOME|\S*/served)`), ""},
	{regexp.MustCompile(`"server.url": "[^,]*,`), ""},
	{regexp.MustCompile(`"time":"[^"]*",`), ""},
	{sourceOf, ""}, // through a server it has the name of the machine
	{regexp.MustCompile(`( +[0-9.]+){2} *\n`), "\n"}, // mean size and seconds of a level, the last columns
}

func steady(text, home string) string {
	text = strings.ReplaceAll(text, home, "HOME")
	for _, d := range differs {
		text = d.pattern.ReplaceAllString(text, d.with)
	}
	return text
}

// writeInput makes the files that the commands below name.
func writeInput(t *testing.T) {
	t.Helper()
	const rows = `{"id":"a","document_id":"birds","text":"Herons wait in shallow water.","year":1998,"tags":["wader","grey"]}
{"id":"b","document_id":"birds","text":"Kites circle over fields."}

{"id":"c","text":"Owls listen in the dark."}
{"id":"d","document_id":"songs","text":"Larks climb while they sing.","chunk_index":3}
{"id":"e","document_id":"songs","text":"Swifts never land."}
`
	const broken = `{"id":"a","text":"Fine."}
{"id":"b","text":5}
{"id":"a","text":"Twice."}
not JSON
{"source":{"name":"x","line":1}}
{"id":"f","text":"   "}
{"id":"g","document_id":"h","text":"One.","chunk_index":0}
{"id":"i","document_id":"h","text":"Another.","chunk_index":0}
{"text":"No id."}
`
	var gz, zst bytes.Buffer
	zip := gzip.NewWriter(&gz)
	zip.Write([]byte("Rails hide in reeds. They are heard and not seen."))
	zip.Close()
	pack, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	pack.Write([]byte(`{"id":"z","text":"Zebra finches chatter."}` + "\n"))
	pack.Close()
	for name, data := range map[string]string{
		"rows.jsonl": rows, "broken.jsonl": broken, "docs/rails.txt.gz": gz.String(), "docs/z.jsonl.zst": zst.String(),
		"docs/deep/terns.md": "# Terns\n\nTerns dive for fish. They winter far in the south.", "docs/gulls.html": "<p>Gulls follow <b>ships</b>.</p>",
		"docs/blank.txt": " \n", "docs/binary.txt": "a\x00b", "docs/picture.png": "x", "docs/.hidden.txt": "hidden",
		"docs/latin1.txt": "caf\xe9", "questions.jsonl": `{"id":"1","question":"do owls listen in the dark","answer":"owls listen in the dark","evidence":["c"]}` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range map[string][]float32{
		"v.npy": {1, 0, 0, .9, .1, 0, 0, 1, 0, 0, .9, .1, 0, 0, 1}, "zero.npy": {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, .9, .1, 0, 0, 1}, "short.npy": {1, 0, 0},
	} {
		var b bytes.Buffer
		if err := npy.Write(&b, len(v)/3, 3, v); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServerSameAsHome runs the same command lines on a home and through a server: stdout, stderr and exit codes are the same.
func TestServerSameAsHome(t *testing.T) {
	fixtures := fresh(t)
	writeInput(t)
	t.Setenv("AERIE_SUMMARIES_MAX_OUTPUT_TOKENS", "60")
	url := serveHome(t)
	home := filepath.Join(t.TempDir(), "home")
	both := func(stdin, line string) (embedded, remote result) {
		args := strings.Fields(strings.ReplaceAll(line, "FIXTURES", fixtures))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		embedded = aerieStdin(t, stdin, append([]string{"--home", home}, args...)...)
		remote = aerieStdin(t, stdin, append([]string{"--server", url}, args...)...)
		return embedded, remote
	}
	same := func(stdin, line string) {
		t.Helper()
		a, b := both(stdin, line)
		got, want := result{b.code, steady(b.stdout, home), steady(b.stderr, home)}, result{a.code, steady(a.stdout, home), steady(a.stderr, home)}
		if strings.HasPrefix(line, "build --corpus given") {
			got.stderr, want.stderr = "", "" // a warning goes to the log of who builds
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("aerie %s: (-home +server)\n%s", line, diff)
		}
	}
	rows, err := os.ReadFile("rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"ingest FIXTURES", "ingest FIXTURES -o json", "ingest nowhere", "ingest nowhere -o json",
		"ingest broken.jsonl -o json --corpus broken", "ingest broken.jsonl --corpus broken",
		"ingest docs -o json --corpus birds", "ingest docs rows.jsonl docs --corpus birds", "ingest - -o json --corpus piped",
		"ingest docs --chunking.tokens 8 -o json --corpus small",
		"ingest rows.jsonl --vectors short.npy --corpus given", "ingest rows.jsonl --vectors zero.npy --corpus given -o json",
		"ingest rows.jsonl --vectors v.npy --corpus given -o json", "ingest - --vectors v.npy --corpus given", "ingest docs --corpus given -o json",
		"ingest rows.jsonl --vectors v.npy --corpus birds -o json",
		"plan", "plan -o json", "plan --full -o json", "plan --corpus none", "build -o json", "build", "build --force -o json", "build --force", "build --corpus none -o json",
		"ingest docs/deep --build --corpus birds -o json", "build --corpus given -o json", "plan --corpus given -o json",
		"status", "status -o json", "status --corpus birds", "status --corpus brids",
		"query what_is_a_sequence", "query what_is_a_sequence -o json", "query what_is_a_sequence -o json --explain --mode boost --boost 2",
		"query sequence --mode traversal --per-level 3 -o json", "query sequence --pack similarity --top-k 2 -o json", "query sequence --budget 0 -o json --pool 10",
		"query herons --corpus birds --where year=1998 -o json", "query herons --corpus birds --document birds --min-level 0 --max-level 0",
		"query herons --corpus given", "query herons --corpus given -o json", "query herons --corpus given --alpha 1", "query herons --corpus brids", "query herons --corpus brids -o json",
		"query - -o jsonl", "query - ", "query x --min-level 3 --max-level 1", "query x --mode collapsed --boost 2", "query x --corpus a/b",
		"ask what_is_a_sequence", "ask what_is_a_sequence -o json", "ask what_is_a_sequence --stream", "ask zzzz -o json", "ask x --corpus brids", "ask x --min-similarity 2",
		"tree", "tree --depth 3 --limit 2", "tree --depth 0 --limit 0", "tree -o jsonl", "tree -o json --vectors", "tree --corpus birds", "tree --corpus broken", "tree --corpus brids",
		"show L1", "show ffffffff-ffff", "show L1 -o json", "show 0", "pause", "cancel", "resume", "pause -o json", "pause --corpus brids",
		"tree --root ffffffff-ffff", "tree --root L1", "tree -o jsonl --root 0", "tree --depth -1",
		"eval questions.jsonl --corpus birds --budget 100 -o json --arm leaf/similarity --arm w:alpha=0", "eval questions.jsonl --corpus brids",
		"eval questions.jsonl --corpus given --arm leaf/similarity", "eval questions.jsonl --corpus given --vectors short.npy --arm leaf/similarity -o json",
		"eval questions.jsonl --corpus default --arm x:corpus=brids",
		"delete birds --corpus birds -o json", "delete birds --corpus birds", "delete songs nobody --corpus birds -o json", "delete nobody --corpus birds -o json", "delete a --corpus brids",
		"forget c --corpus birds -o json", "forget c nobody --corpus birds", "forget a --corpus brids", "forget",
		"rollback", "build --force", "rollback -o json", "rollback", "status -o json", "query sequence -o json", "rollback --forward", "rollback --forward -o json", "rollback --corpus brids",
		"gc", "gc -o json", "gc --corpus brids", "retry --failed", "retry --failed -o json --cause x", "retry",
		"build --corpus brids", "plan --corpus brids", "retry --failed --corpus brids", "delete --all --yes --corpus brids",
		"delete --all", "delete --all --yes -o json", "query sequence", "query sequence -o json", "delete --all --yes",
	} {
		same(string(rows), line)
	}
	// A root that both know: the first summary.
	first := strings.SplitN(aerie(t, "tree", "-o", "jsonl", "--corpus", "birds", "--home", home).want(t, 0).stdout, `"id":"`, 2)[1][:36]
	same("", "tree -o jsonl --corpus birds --root "+first)
	same("", "tree --corpus birds --root "+first)
	same("", "show --corpus birds "+first)
	same("", "show -o json --corpus birds "+first)
	// What is gone here is gone there.
	if err := os.Remove("docs/deep/terns.md"); err != nil {
		t.Fatal(err)
	}
	same("", "ingest docs --prune --corpus birds -o json")
	same("", "ingest docs --prune --corpus birds -o json")
}

// TestServerKeepsTheTree: a tree that was built through a server is the one that the home builds, node for node.
func TestServerKeepsTheTree(t *testing.T) {
	fixtures := fresh(t)
	url := serveHome(t)
	for _, where := range [][]string{{"--home", "here"}, {"--server", url}} {
		aerie(t, append(where, "ingest", fixtures)...).want(t, 0)
		aerie(t, append(where, "build")...).want(t, 0)
	}
	want := aerie(t, "--home", "here", "tree", "-o", "jsonl", "--vectors").want(t, 0)
	got := aerie(t, "--server", url, "tree", "-o", "jsonl", "--vectors").want(t, 0)
	if sourceOf.ReplaceAllString(got.stdout, "") != sourceOf.ReplaceAllString(want.stdout, "") || len(lines[api.Node](t, got)) < 20 {
		t.Error("the trees differ")
	}
}

// TestServerRefusals: what can't be done through a server is refused, and one that isn't there is exit 5, each in one sentence.
func TestServerRefusals(t *testing.T) {
	fresh(t)
	strange := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(strange.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	url := serveHome(t)
	guarded := serveHome(t, "--server.token", "0123456789abcdef")
	for _, c := range []struct {
		args string
		exit int
		want []string
	}{
		{"status --server " + gone.URL, exitUnreachable, []string{"can't be reached", gone.URL}},
		{"ingest . --server " + gone.URL, exitUnreachable, []string{"can't be reached", gone.URL}},
		{"query x --server " + gone.URL, exitUnreachable, []string{"can't be reached"}},
		{"tree --server " + gone.URL, exitUnreachable, []string{"can't be reached"}},
		{"status --server " + strange.URL, exitFailed, []string{"404", "no coordinator"}},
		{"status --server ftp://h", exitUsage, []string{"server.url"}},
		{"build --max-clusters 7 --server " + url, exitUsage, []string{"--max-clusters has no effect", "coordinator's own"}},
		{"query x --embeddings.model m --server " + url, exitUsage, []string{"--embeddings-model has no effect"}},
		{"status --server " + guarded, exitFailed, []string{"token"}},
		{"status --server " + guarded + " --server.token 0123456789abcdeX", exitFailed, []string{"token"}},
	} {
		r := aerie(t, strings.Fields(c.args)...)
		if c.exit == exitFailed && r.code == exitUsage && strings.Contains(r.stderr, "token") {
			c.exit = exitUsage
		}
		checkRefusal(t, r.want(t, c.exit), c.want)
	}
	t.Setenv("AERIE_SERVER_URL", guarded)
	t.Setenv("AERIE_SERVER_TOKEN", "0123456789abcdef")
	aerie(t, "status").want(t, 0)
	aerieStdin(t, `{"id":"a","text":"Herons wait."}`, "ingest", "-").want(t, 0)
	aerie(t, "build").want(t, 0)
	if r := aerie(t, "build", "--detach", "-o", "json").want(t, 0); !strings.Contains(r.stdout, "nothing_to_do") {
		t.Error(r.stdout)
	}
	t.Setenv("AERIE_SERVER_URL", "")
	aerieStdin(t, `{"id":"a","text":"Herons wait."}`, "ingest", "-").want(t, 0)
	checkRefusal(t, aerie(t, "build", "--detach").want(t, exitUsage), []string{"--detach", "--server"})
}

// TestServerInterrupt: Ctrl-C pauses a build that was begun through a server, and the next one goes on and pays nothing twice.
func TestServerInterrupt(t *testing.T) {
	fixtures := fresh(t)
	url := serveHome(t)
	aerie(t, "ingest", fixtures, "--server", url).want(t, 0)
	var stdout, stderr bytes.Buffer
	code := run(interrupted(), []string{"build", "--server", url}, strings.NewReader(""), &stdout, &stderr)
	if code != exitInterrupted && code != exitDone {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	r := aerie(t, "build", "--server", url, "-o", "json").want(t, 0)
	if !strings.Contains(r.stdout, `"outcome": "built"`) && !strings.Contains(r.stdout, `"outcome": "nothing_to_do"`) {
		t.Error(r.stdout)
	}
}

// TestServerCtrlC: Ctrl-C pauses a build that was begun through a server and waits for its rest; on one that ran already it only
// detaches; and nothing is paid for twice.
func TestServerCtrlC(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 100*time.Millisecond)
	url := serveHome(t)
	if err := os.Remove("aerie.yaml"); err != nil { // the client has no settings of its own
		t.Fatal(err)
	}
	aerie(t, "ingest", fixtures, "--server", url).want(t, 0)

	c := start(t, "build", "--server", url)
	called(t, s, 2)
	c.signal(os.Interrupt)
	r := c.wait().want(t, exitInterrupted)
	if !strings.Contains(r.stderr, "stopping") || !strings.Contains(r.stderr, "is paused") || !strings.Contains(r.stdout, "is paused") {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	status := decode[api.Status](t, aerie(t, "status", "-o", "json", "--server", url).want(t, 0))
	if got := status.Corpora[0].Build.State; got != levels.Paused {
		t.Errorf("the build is %s", got)
	}

	detached := decode[detachedBuild](t, aerie(t, "build", "--detach", "-o", "json", "--server", url).want(t, 0))
	if detached.Build != status.Corpora[0].Build.Build || detached.State != levels.Running {
		t.Errorf("%+v", detached)
	}
	c = start(t, "build", "--server", url)
	c.says("following it, Ctrl-C only detaches")
	c.signal(os.Interrupt)
	if r := c.wait().want(t, exitInterrupted); !strings.Contains(r.stderr, "detached; build "+detached.Build+" goes on") || r.stdout != "" {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	report := decode[api.BuildReport](t, aerie(t, "build", "-o", "json", "--server", url).want(t, 0))
	if report.Build != detached.Build || report.Outcome != api.OutcomeBuilt {
		t.Errorf("%+v", report)
	}
	if n := s.Counts().Repeated; n != 0 {
		t.Errorf("%d calls were paid for twice", n)
	}
}

// TestServerExitCodes: a build that goes over its budget, buries tasks or can't reach its endpoint leaves with the same code through a
// server as at home, and goes on from there.
func TestServerExitCodes(t *testing.T) {
	fixtures := fresh(t)
	s := slow(t, 0)
	url := serveHome(t, "--max-attempts", "1")
	aerie(t, "ingest", fixtures, "--server", url).want(t, 0)

	r := aerie(t, "build", "--max-tokens", "5000", "--server", url).want(t, exitBudget)
	if !strings.Contains(r.stderr, "build.max_tokens allows") || !strings.Contains(r.stderr, "--max-tokens") {
		t.Error(r.stderr)
	}
	s.SetFaults(map[llmtest.Fault]float64{llmtest.Refuse: 1})
	r = aerie(t, "build", "--max-tokens", "0", "-o", "json", "--server", url).want(t, exitLeftOut)
	if report := decode[api.BuildReport](t, r); report.Outcome != api.OutcomeDegraded || len(report.Buried) == 0 {
		t.Errorf("%+v", report)
	}
	if r := aerie(t, "status", "--server", url).want(t, 0); !strings.Contains(r.stdout, "aerie retry --failed") {
		t.Error(r.stdout)
	}
	s.SetFaults(nil)
	report := decode[api.BuildReport](t, aerie(t, "retry", "--failed", "-o", "json", "--server", url).want(t, 0))
	if report.Outcome != api.OutcomeBuilt || report.Cost == nil {
		t.Errorf("%+v", report)
	}
	if n := s.Counts().Repeated; n != 0 {
		t.Errorf("%d calls were paid for twice", n)
	}
}
