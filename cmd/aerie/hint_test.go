package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// hintFolders are where sentences that name commands of aerie are written.
var hintFolders = []string{
	"cmd/aerie", "cmd/internal/wire", "cmd/internal/daemon", "internal/api", "internal/service", "internal/server", "internal/client", "internal/coordinator",
	"internal/worker", "internal/levels", "internal/llm", "internal/retrieve", "internal/answer", "internal/ingest", "internal/config", "internal/sqlite",
	"internal/redisstate", "internal/weaviate", "internal/queue/natsqueue", "internal/access",
}

// hintLiterals returns the texts of the program that name a command of aerie, help left out.
func hintLiterals(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, cmd := range (&cli{}).commands() {
		names = append(names, cmd.Name())
	}
	names = append(names, "completion", "serve", "token")
	pattern := regexp.MustCompile(`\baerie (` + strings.Join(names, "|") + `)\b`)
	var all []string
	for _, folder := range hintFolders {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if pair, ok := n.(*ast.KeyValueExpr); ok {
					if key, ok := pair.Key.(*ast.Ident); ok && slices.Contains([]string{"Use", "Short", "Long", "Example"}, key.Name) {
						return false // help, which prints no state
					}
				}
				if _, ok := n.(*ast.Field); ok {
					return false // tags
				}
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				if pattern.MatchString(text) {
					all = append(all, text)
				}
				return true
			})
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// noHints are texts that name a command and advise nothing, or advise it where no command line leads, each by its beginning.
var noHints = []string{
	"\n$ aerie ", "  aerie ingest FOLDER && aerie build", "sentences and vectors know words", "install Go from", // what the demo shows
	"# (--section-key", "environment variable, such as", // help
	"Asks every question", "Finds what the corpus holds", "The body is JSON lines", "only those that were buried for this cause",
	"retrieve: corpus %s: %w: there is none yet",                                                                      // the service says so first
	"aerie repair makes it again",                                                                                     // TestA8DamagedKeywordIndex (internal/sqlite) repairs
	"aerie status shows what is so now",                                                                               // two people who cancel at once, which TestCancelNames (internal/service) does
	"the leaves of a summary hold together %s less than",                                                              // the same advice as for change, which the walk of a corpus that grows takes
	"coordinator: tokens with name", "ask whoever keeps server.tokens_file", "it has %d words; it must be NAME RIGHT", // of tokens, which the coordinator's tests walk
}

// walker goes through the states in which the program gives advice.
type walker struct {
	*testing.T
	seen map[string]bool
}

var verb = regexp.MustCompile(`%[a-z]`)

// said holds what a command printed to hold hints, by their text in the program.
func (w *walker) said(r result, hints ...string) result {
	w.Helper()
	for _, hint := range hints {
		pattern := verb.ReplaceAllString(regexp.QuoteMeta(strings.TrimSpace(hint)), `[\s\S]*?`)
		if !regexp.MustCompile(pattern).MatchString(r.stdout + "\n" + r.stderr) {
			w.Errorf("nobody says %q:\n%s\n%s", hint, r.stdout, r.stderr)
		}
		w.seen[hint] = true
	}
	return r
}

// run runs a command line and holds it to an exit code.
func (w *walker) run(exit int, line string, more ...string) result {
	w.Helper()
	r := aerie(w.T, append(strings.Fields(line), more...)...)
	if r.code != exit {
		w.Fatalf("aerie %s %q: exit %d, want %d\nstdout: %s\nstderr: %s", line, more, r.code, exit, r.stdout, r.stderr)
	}
	return r
}

// advised returns the command lines that a text advises, up to the word that follows them.
func advised(text, command, until string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`aerie (`+command+`(?: --?[^ ;]+)*) `+until).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestEveryHintWorks walks every text of the program that names a command of aerie: each is printed in its state, and what it names
// is run there. A new one that no walk below meets fails the test. FAULTS2 A13, A14, A15.
func TestEveryHintWorks(t *testing.T) {
	w := &walker{t, map[string]bool{}}
	for _, walk := range []struct {
		name string
		walk func(*walker)
	}{
		{"nothing there", (*walker).nothing}, {"odd command lines", (*walker).lines}, {"another embedder", (*walker).embedders},
		{"A13 buried", (*walker).buried}, {"A13 built without", (*walker).builtWithout}, {"rests", (*walker).rests}, {"A14 A15 other settings", (*walker).settings},
		{"a build that runs", (*walker).running}, {"a build whose process was killed", (*walker).killed},
		{"over HTTP", (*walker).http}, {"a corpus that grows", (*walker).grown},
		{"sources", (*walker).sources},
	} {
		t.Run(walk.name, func(t *testing.T) {
			fresh(t)
			walk.walk(&walker{t, w.seen})
		})
	}
	if t.Failed() {
		return
	}
	for _, hint := range hintLiterals(t) {
		excused := slices.ContainsFunc(noHints, func(begin string) bool { return strings.HasPrefix(hint, begin) })
		if !w.seen[hint] && !excused {
			t.Errorf("no walk shows that this works where it is said: %q", hint)
		}
		delete(w.seen, hint)
	}
	for hint := range w.seen {
		t.Errorf("the program doesn't say %q any more", hint)
	}
}

// ingest brings n short leaves in.
func (w *walker) ingest(n int, more ...string) {
	w.Helper()
	if err := os.WriteFile("rows.jsonl", []byte(rows(sentences(n), nil)), 0o600); err != nil {
		w.Fatal(err)
	}
	w.run(exitDone, "ingest rows.jsonl", more...)
}

// small makes several clusters of few leaves.
var small = []string{"--max-cluster-tokens=60"}

// with returns flags that summarize with an endpoint.
func with(s *llmtest.Server, more ...string) []string {
	return append(append(slices.Clone(small), "--summaries.provider=openai", "--summaries.model=m", "--max-attempts=1", "--summaries.base_url="+s.URL()), more...)
}

func (w *walker) endpoint(cfg llmtest.Config) *llmtest.Server {
	s := llmtest.New(cfg)
	w.Cleanup(s.Close)
	return s
}

func (w *walker) nothing() {
	w.said(w.run(exitFailed, "query x"), "aerie ingest PATH brings text in; --home names another folder")
	w.said(w.run(exitDone, "status"), "no corpus in %s yet; aerie ingest PATH brings text in\n")
	w.ingest(20)
	w.said(w.run(exitDone, "tree"), "%s has %s and no tree yet; aerie build makes one\n")
	w.run(exitDone, "build")
	w.said(w.run(exitFailed, "tree --root zzz"), "aerie tree prints ids")
	w.run(exitDone, "tree")
	w.said(w.run(exitFailed, "query x --corpus defualt"), "aerie status lists them")
	w.said(w.run(exitFailed, "repair --corpus defualt"), "aerie status lists the corpora")
	w.run(exitDone, "status")
	w.run(exitDone, "delete --all --yes")
	w.said(w.run(exitFailed, "query x"), "aerie ingest PATH brings text in")
	w.ingest(3)
	w.run(exitDone, "delete r00 r01 r02")
	w.said(w.run(exitFailed, "query x"), "retrieve: corpus %s: %w: run `aerie ingest` first", "aerie ingest PATH brings text in; aerie status lists the corpora")
	w.run(exitDone, "status")
	w.said(w.run(exitDone, "tree"), "%s holds nothing yet; aerie ingest PATH brings text in\n")
	w.ingest(3)
}

func (w *walker) lines() {
	w.ingest(5)
	w.said(w.run(exitUsage, "delete"), "aerie delete needs at least one document id, --prefix or --source", "aerie delete --all --yes removes the corpus")
	w.said(w.run(exitUsage, "delete r01 --all"), "aerie delete takes documents or --all, not both")
	w.said(w.run(exitUsage, "delete --all"), "aerie delete --all removes the corpus %q with all it holds")
	w.run(exitDone, "delete --all --yes")
	w.ingest(5)
	w.run(exitDone, "delete r01")
	w.said(w.run(exitUsage, "forget"), "aerie forget needs at least one document id")
	w.run(exitDone, "forget r02")
	w.said(w.run(exitUsage, "query --mode fuzzy x"), "aerie query --help lists the options")
	w.run(exitDone, "query --help")
	w.said(w.run(exitUsage, "retry"), "aerie retry needs --failed, which runs the buried tasks again", "aerie status lists what is buried and why")
	w.run(exitDone, "status")
	w.run(exitDone, "retry --failed")
	w.said(w.run(exitUsage, "build --queue.url nats://h:4222"), "on one machine `aerie build` does the whole work without them")
	w.run(exitDone, "build")
	w.said(w.run(exitUsage, "status --config aerie.yaml"), "aerie init writes one")
	w.run(exitDone, "init")
	w.run(exitDone, "status --config aerie.yaml")
}

func (w *walker) embedders() {
	w.ingest(5)
	s := w.endpoint(llmtest.Config{Width: 384})
	other := []string{"--embeddings.provider=openai", "--embeddings.model=e", "--embeddings.base_url=" + s.URL()}
	w.said(w.run(exitUsage, "query x", other...),
		"and embeddings.model back to %s, or run `aerie ingest` with --corpus and a new name to embed the documents anew")
	w.run(exitDone, "ingest rows.jsonl --corpus new", other...)
	w.run(exitDone, "query x")
	w.said(w.run(exitUsage, "ingest rows.jsonl", other...), "Use `--embeddings.…` as before, another --corpus, or `aerie delete --all --yes` and ingest again")
	w.run(exitDone, "delete --all --yes")
	w.run(exitDone, "ingest rows.jsonl", other...)
}

// refusing is an endpoint that refuses some summaries for good.
func (w *walker) refusing() *llmtest.Server {
	return w.endpoint(llmtest.Config{Faults: map[llmtest.Fault]float64{llmtest.Refuse: 0.3}, Seed: 4})
}

// buried: a build that stopped with buried tasks goes on with them, or, once it is allowed as many, without them and without force.
func (w *walker) buried() {
	w.ingest(40)
	bad, good := w.refusing(), w.endpoint(llmtest.Config{})
	stop := w.said(w.run(exitLeftOut, "build", with(bad)...), "aerie status lists them by cause; aerie retry --failed runs them again and goes on")
	if !strings.Contains(stop.stderr, "refusal") {
		w.Error(stop.stderr)
	}
	w.said(w.run(exitDone, "status"), "aerie retry --failed runs the buried tasks again")
	dead := decode[api.Dead](w.T, w.run(exitDone, "dead -o json"))
	if len(dead.Causes) != 1 || dead.Causes[0].Cause != "refusal" || dead.Causes[0].Tasks == 0 || dead.Causes[0].Example.Error == "" {
		w.Errorf("%+v", dead)
	}
	w.said(w.run(exitDone, "dead"), "aerie retry --failed runs the buried tasks again")
	w.run(exitDone, "retry --failed", with(good)...)

	w.run(exitDone, "delete --all --yes")
	w.ingest(40)
	const fresh = "--summaries.temperature=0.1" // what was paid for is kept, and isn't refused again
	w.run(exitLeftOut, "build", with(bad, fresh)...)
	again := decode[api.BuildReport](w.T, w.run(exitLeftOut, "build -o json", with(bad, fresh, "--build.max_buried=0.9")...))
	if again.Outcome != api.OutcomeBuilt || len(again.Buried) == 0 {
		w.Errorf("with a larger build.max_buried it is %s, %d buried: %s", again.Outcome, len(again.Buried), again.Why)
	}
}

// builtWithout: a tree that was built without its buried tasks gets them by the command that is advised, and every leaf a parent.
func (w *walker) builtWithout() {
	w.ingest(40)
	bad, good := w.refusing(), w.endpoint(llmtest.Config{})
	w.said(w.run(exitLeftOut, "build", with(bad, "--build.max_buried=0.9")...), "aerie retry --failed runs them again")
	orphans := func() (n int) {
		for _, node := range lines[api.Node](w.T, w.run(exitDone, "tree -o jsonl")) {
			if node.Level == 0 && len(node.ParentIDs) == 0 {
				n++
			}
		}
		return n
	}
	if orphans() == 0 {
		w.Error("every leaf has a parent though tasks are buried")
	}
	w.said(w.run(exitDone, "status"), "aerie retry --failed runs the buried tasks again")
	none := decode[api.BuildReport](w.T, w.run(exitDone, "retry --failed --cause empty -o json", with(good)...))
	if none.Outcome != api.OutcomeNothingToDo {
		w.Errorf("a cause that nothing is buried for: %s", none.Outcome)
	}
	other := w.said(w.run(exitUsage, "retry --failed", with(good, "--summaries.temperature=0.5")...),
		"aerie retry --failed %s tries them again in that tree; %s", "aerie build --force builds anew with the settings of now")
	if !strings.Contains(other.stderr, "summaries.temperature was 0, is 0.5") {
		w.Error(other.stderr)
	}
	line := advised(other.stderr, "retry --failed", "tries")
	if len(line) != 1 {
		w.Fatalf("advised is %q", line)
	}
	report := decode[api.BuildReport](w.T, w.run(exitDone, line[0]+" -o json", with(good)...))
	if n := orphans(); report.Outcome != api.OutcomeBuilt || report.Reused == 0 || n != 0 {
		w.Errorf("after the retry it is %s, %d reused, and %d leaves have no parent", report.Outcome, report.Reused, n)
	}
	w.run(exitDone, "build --force", with(good, "--summaries.temperature=0.5")...)
}

// rests: what is said about a build that rests, for each reason.
func (w *walker) rests() {
	w.ingest(40)
	s := w.endpoint(llmtest.Config{})
	w.said(w.run(exitBudget, "build --max-tokens 1", with(s)...), "aerie build with a larger --max-tokens or --max-cost goes on, and pays for nothing twice")
	w.run(exitDone, "build --max-tokens 1000000", with(s)...)

	locked := w.endpoint(llmtest.Config{Key: "secret"})
	w.said(w.run(exitFailed, "build --force", with(locked, "--summaries.temperature=0.1")...), "aerie build goes on where it stopped, once the cause is gone")
	w.run(exitDone, "build", with(s, "--summaries.temperature=0.1")...)

	late := w.endpoint(llmtest.Config{Latency: 200 * time.Millisecond})
	begun := start(w.T, append([]string{"build", "--force"}, with(late, "--summaries.temperature=0.2")...)...)
	called(w.T, late, 1)
	begun.signal(os.Interrupt)
	w.said(begun.wait().want(w.T, exitInterrupted), "aerie build goes on where it stopped, and pays for nothing twice")
	// An endpoint is waited for for a minute, and nobody here pauses a build from elsewhere: what is said then, of the same paused build.
	for cause, hint := range map[levels.Cause]string{
		levels.CauseUnreachable: "aerie build goes on once it can be reached", levels.CauseFull: goOn[levels.CauseFull], levels.CauseAsked: "aerie build goes on where it stopped",
	} {
		c := &cli{out: io.Discard, err: io.Discard}
		f := judge(w.Context(), c.outcome(w.Context(), api.BuildReport{Build: "b", Outcome: api.OutcomePaused, Cause: cause, Why: "why"}))
		w.said(result{stderr: f.hint}, hint)
	}
	w.run(exitDone, "build", with(s, "--summaries.temperature=0.2")...)
}

// settings: a build that was begun with other settings goes on, or is made anew, by the commands that are advised; and a tree of
// other settings is told of wherever nothing is to do.
func (w *walker) settings() {
	w.ingest(40)
	w.run(exitDone, "build", small...)
	s := slow(w.T, 300*time.Millisecond)
	if err := os.Remove("aerie.yaml"); err != nil {
		w.Fatal(err)
	}
	seeded := with(s, "--seed=5")
	begun := start(w.T, append([]string{"build", "--force"}, seeded...)...)
	called(w.T, s, 1)
	begun.signal(os.Kill)
	begun.wait()
	for _, line := range []string{"build", "retry --failed"} {
		r := w.said(w.run(exitUsage, line, with(s)...), "aerie build %s goes on with it; %s",
			"aerie build --force builds anew with the settings of now, and pays for no call twice")
		if !strings.Contains(r.stderr, "clustering.seed was 5, is 224") {
			w.Errorf("%s: %s", line, r.stderr)
		}
	}
	told := w.run(exitDone, "status -o json")
	status := decode[api.Status](w.T, told)
	if got := status.Corpora[0].SettingsChanged; !slices.Contains(got, "clustering.seed") {
		w.Errorf("settings_changed is %q", got)
	}
	// What status advises knows of no flags that are typed again and again.
	advice := advised(status.Corpora[0].SettingsAdvice, "build", "goes")
	if len(advice) != 1 || !strings.Contains(advice[0], "--clustering-seed=5") {
		w.Fatalf("advised is %q in %q", advice, status.Corpora[0].SettingsAdvice)
	}
	report := decode[api.BuildReport](w.T, w.run(exitDone, advice[0]+" -o json", "--max-attempts=1", "--summaries.base_url="+s.URL()))
	if report.Outcome != api.OutcomeBuilt || report.Generation != 2 || report.Build != status.Corpora[0].Build.Build {
		w.Errorf("it went on as %s, generation %d: %s", report.Outcome, report.Generation, report.Why)
	}

	nothing := "%s; generation %d was built with other settings: %s; `aerie build --force` builds with those of now"
	other := with(s, "--summaries.model=other")
	for _, line := range []string{"build", "plan"} {
		if r := w.said(w.run(exitDone, line, other...), nothing); !strings.Contains(r.stdout, "summaries.model was m, is other") {
			w.Errorf("%s: %s", line, r.stdout)
		}
	}
	w.said(w.run(exitDone, "status"), "generation %d was built with other settings: %s; aerie build --force builds with those of now")
	w.run(exitDone, "build --force", other...)
	if r := w.run(exitDone, "build", other...); strings.Contains(r.stdout, "other settings") {
		w.Error(r.stdout)
	}
}

// running: what is said beside a build that runs at a coordinator.
func (w *walker) running() {
	s := slow(w.T, 200*time.Millisecond)
	url := serveHome(w.T)
	if err := os.Remove("aerie.yaml"); err != nil {
		w.Fatal(err)
	}
	server := []string{"--server", url}
	w.ingest(60, server...)
	w.said(w.run(exitDone, "build --detach", server...), "%s: build %s runs; aerie status looks at it, aerie build attaches to it\n")
	called(w.T, s, 1)
	w.said(w.run(exitFailed, "gc", server...), "aerie status looks at it; wait until it rests, or pause it")
	w.said(w.run(exitFailed, "retry --failed", server...), "wait until it rests; aerie status looks at it")
	w.said(w.run(exitDone, "pause", server...), "%s: build %s is %s; aerie resume goes on with it, and pays for nothing twice\n")
	w.run(exitDone, "resume --detach", server...)
	guest := start(w.T, append([]string{"build"}, server...)...)
	guest.says("following it")
	guest.signal(os.Interrupt)
	w.said(guest.wait().want(w.T, exitInterrupted), "aerie build attaches again; aerie status looks at it")
	if r := w.run(exitDone, "status", server...); !strings.Contains(r.stdout, "running") {
		w.Errorf("status doesn't look at it:\n%s", r.stdout)
	}
	w.run(exitDone, "build", server...)
}

// killed: a build whose process is gone goes on, or ends for good, without it.
func (w *walker) killed() {
	w.ingest(40)
	s := w.endpoint(llmtest.Config{Latency: 100 * time.Millisecond})
	begun := start(w.T, append([]string{"build"}, with(s)...)...)
	called(w.T, s, 2)
	begun.signal(os.Kill)
	begun.wait()
	w.said(w.run(exitFailed, "pause"), "aerie resume goes on with it; aerie cancel ends it")
	if err := os.CopyFS("other", os.DirFS(".aerie")); err != nil {
		w.Fatal(err)
	}
	if r := w.run(exitDone, "resume --home other -o json", with(s)...); !strings.Contains(r.stdout, `"outcome": "built"`) {
		w.Error(r.stdout)
	}
	if r := w.run(exitDone, "cancel -o json"); !strings.Contains(r.stdout, `"state": "cancelled"`) {
		w.Error(r.stdout)
	}
	if r := w.run(exitDone, "resume"); !strings.Contains(r.stdout, "there is nothing unfinished") {
		w.Error(r.stdout)
	}
	w.run(exitDone, "build", with(s)...)
}

// http: what the API advises.
func (w *walker) http() {
	url := serveHome(w.T)
	w.ingest(5, "--server", url)
	get := func() result {
		res, err := http.Get(url + "/v1/corpora/default/builds/none")
		if err != nil {
			w.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusNotFound {
			w.Errorf("status %d, %v", res.StatusCode, err)
		}
		return result{stdout: string(body)}
	}
	w.said(get(), "aerie status lists what there is")
	w.run(exitDone, "status --server", url)
	w.run(exitDone, "build --server", url)
	w.said(get(), "aerie status shows it")
	if r := w.run(exitDone, "status --server", url); !strings.Contains(r.stdout, "build ") {
		w.Error(r.stdout)
	}
}

// grown walks a corpus whose builds are asked for, and which grows past what its tree was built from.
func (w *walker) grown() {
	if err := os.WriteFile("aerie.yaml", []byte("build: {auto: false}\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	w.ingest(12)
	w.said(w.run(exitDone, "status"), "; build.auto is false, so aerie build starts it")
	w.run(exitDone, "build", small...)
	w.ingest(40)
	w.run(exitDone, "build", small...)
	w.said(w.run(exitDone, "status"), "the corpus has changed by %s since generation %d was built in full: aerie build --full")
	w.run(exitDone, "build --full", small...)
	w.said(w.run(exitFailed, "rollback --forward"), "aerie rollback goes back to generation %d")
	w.run(exitDone, "rollback")
	w.said(w.run(exitFailed, "rollback"), "aerie rollback --forward brings generation %d back")
	w.run(exitDone, "rollback --forward")
	w.run(exitDone, "ingest rows.jsonl --corpus other")
	w.said(w.run(exitFailed, "rollback --corpus other"), "aerie build makes it")
	w.run(exitDone, "build --corpus other")
}

// sources walks what is said of documents that belong together.
func (w *walker) sources() {
	write(w.T, map[string]string{"docs/r.md": "The otter swims."})
	w.run(exitDone, "ingest docs")
	if err := os.Rename("docs", "texts"); err != nil {
		w.Fatal(err)
	}
	w.said(w.run(exitUsage, "delete r01 --source x"), "aerie delete takes documents, or --prefix and --source, not both")
	w.said(w.run(exitFailed, "delete --source x"), "aerie documents lists what is there, with sources")
	source := lines[api.Document](w.T, w.run(exitDone, "documents -o jsonl"))[0].Source
	w.said(w.run(exitDone, "ingest --prune texts"), "there is nothing any more where this source was; its documents stay, since --prune never leaves the sources that are named: aerie delete --source removes them")
	w.run(exitDone, "delete --source", source)
}
