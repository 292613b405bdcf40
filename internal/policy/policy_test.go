package policy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/aerie-rag/aerie/"

// rule says what the packages below a folder may import of aerie, and of the standard library not.
type rule struct {
	folder string
	// may lists the folders of aerie that it may import; its own is always allowed.
	may []string
	// not lists standard packages that it may not import.
	not []string
	why string
}

var rules = []rule{
	{"internal/tree", nil, []string{"os", "net"}, "the nouns depend on nothing"},
	{"internal/printable", nil, []string{"os", "net", "net/http"}, "what is shown is made fit for it everywhere alike"},
	{"internal/space", nil, []string{"os", "net", "net/http"}, "an error is known without a look at the disk"},
	{"internal/word", nil, []string{"os", "net"}, "words depend on nothing"},
	{"internal/npy", nil, nil, "a file format knows no corpus"},
	{"internal/clustering", nil, []string{"os", "net", "net/http", "math/rand"}, "clustering is pure: vectors in, rows out"},
	{"internal/clustering/golden", nil, nil, "reads fixtures for the tests of its neighbors"},
	{"internal/clustering/measure", []string{"internal/npy", "internal/clustering/kernel", "internal/clustering/synthetic"}, nil, "measures clustering from outside"},
	{"internal/mapreduce", []string{"internal/tree"}, []string{"os", "net", "net/http"}, "map-reduce is pure"},
	{"internal/queue", []string{"internal/tree"}, nil, "a contract knows nouns only"},
	{"internal/journal", []string{"internal/tree"}, nil, "a contract knows nouns only"},
	{"internal/store", []string{"internal/tree"}, nil, "a contract knows nouns only"},
	{"internal/levels", []string{"internal/tree"}, []string{"os", "net", "net/http"}, "the state machine does no I/O"},
	{"internal/config", []string{"internal/clustering", "internal/llm"}, nil, "settings know what they set"},
	{"internal/readers", nil, []string{"os", "os/exec", "net", "net/http"}, "a reader sees the bytes of one file"},
	{"internal/corpus", []string{"internal/tree", "internal/readers"}, nil, "reading knows no store"},
	{"internal/llm", []string{"internal/journal", "internal/tree", "internal/mapreduce", "internal/word"}, nil, "adapters point inwards"},
	{"internal/sqlite", []string{"internal/tree", "internal/store", "internal/levels", "internal/clustering/kernel", "internal/word"}, nil, "adapters point inwards and never at each other"},
	{"internal/weaviate", []string{"internal/tree", "internal/store", "internal/word"}, nil, "adapters point inwards and never at each other"},
	{"internal/redisstate", []string{"internal/tree", "internal/levels", "internal/llm"}, nil, "adapters point inwards and never at each other"},
	{"internal/queue/natsqueue", []string{"internal/journal", "internal/tree", "internal/queue", "internal/levels"}, nil, "adapters point inwards and never at each other"},
	{"internal/queue/queuetest", []string{"internal/journal", "internal/tree", "internal/queue"}, nil, "suites know contracts only"},
	{"internal/store/storetest", []string{"internal/tree", "internal/store"}, nil, "suites know contracts only"},
	{"internal/levels/leveltest", []string{"internal/tree", "internal/levels"}, nil, "suites know contracts only"},
	{"internal/stack", []string{"internal/weaviate/weaviatetest"}, nil, "starts servers, and knows nothing of what runs on them"},
	{"internal/fence", []string{"internal/tree", "internal/store", "internal/levels"}, nil, "only cmd/ names adapters"},
	{"internal/coordinator", []string{"internal/api", "internal/journal", "internal/tree", "internal/store", "internal/levels", "internal/fence", "internal/queue", "internal/mapreduce", "internal/clustering"}, nil, "only cmd/ names adapters"},
	{"internal/worker", []string{"internal/journal", "internal/tree", "internal/store", "internal/levels", "internal/queue", "internal/mapreduce", "internal/llm"}, nil, "only cmd/ names adapters"},
	{"internal/ingest", []string{"internal/api", "internal/tree", "internal/store", "internal/levels", "internal/llm", "internal/corpus", "internal/npy"}, nil, "only cmd/ names adapters"},
	{"internal/retrieve", []string{"internal/tree", "internal/store", "internal/levels", "internal/llm", "internal/word"}, nil, "only cmd/ names adapters"},
	{"internal/retrieve/retrievetest", []string{"internal/tree", "internal/store", "internal/levels", "internal/retrieve"}, nil, "suites know contracts only"},
	{"internal/answer", []string{"internal/tree", "internal/mapreduce", "internal/llm", "internal/retrieve", "internal/word"}, []string{"os", "net", "net/http"}, "only cmd/ names adapters"},
	{"internal/telemetry", []string{"internal/journal", "internal/tree", "internal/store", "internal/levels", "internal/queue", "internal/llm", "internal/worker", "internal/coordinator", "internal/retrieve"}, nil, "it wraps ports and implements observers; no adapter"},
	{"internal/api", []string{"internal/tree", "internal/store", "internal/levels", "internal/llm", "internal/queue", "internal/retrieve", "internal/answer"}, []string{"os"}, "the nouns and ports of the API; what answers them imports it"},
	{"internal/service", []string{"internal/tree", "internal/store", "internal/levels", "internal/fence", "internal/llm", "internal/mapreduce", "internal/config", "internal/ingest", "internal/retrieve", "internal/answer", "internal/coordinator", "internal/evaluate", "internal/api"}, nil, "only cmd/ names adapters"},
	{"internal/service/servicetest", []string{"internal/tree", "internal/levels", "internal/llm", "internal/mapreduce", "internal/clustering", "internal/corpus", "internal/answer", "internal/coordinator", "internal/worker", "internal/api", "internal/service", "internal/sqlite", "internal/queue/natsqueue"}, nil, "a place for tests, of real parts"},
	{"internal/access", nil, []string{"net", "net/http"}, "who may do what knows neither requests nor corpora"},
	{"internal/audit", []string{"internal/api", "internal/printable"}, []string{"net", "net/http"}, "notes what the API says was changed"},
	{"internal/mcp", []string{"internal/printable", "internal/tree", "internal/api"}, nil, "agents read ports, and know nothing of what is behind them"},
	{"internal/openai", []string{"internal/tree", "internal/retrieve", "internal/answer", "internal/api"}, nil, "programs that chat read ports, and know nothing of what is behind them"},
	{"internal/server", []string{"internal/mcp", "internal/openai", "internal/access", "internal/printable", "internal/tree", "internal/config", "internal/corpus", "internal/retrieve", "internal/answer", "internal/api"}, nil, "HTTP knows ports, not what is behind them"},
	{"internal/client", []string{"internal/tree", "internal/retrieve", "internal/answer", "internal/api"}, nil, "a client knows the API alone"},
	{"internal/evaluate", []string{"internal/tree", "internal/store", "internal/retrieve", "internal/word"}, nil, "only cmd/ names adapters"},
}

// everywhere may be imported by every package: what is shown has one filter, and a full disk one name.
var everywhere = []string{"internal/printable", "internal/space"}

// root is the module's root.
const root = "../.."

// TestImports holds the import rules. Tests are free: those of a package may use its adapters.
func TestImports(t *testing.T) {
	eachGoFile(t, func(path string, file *ast.File, _ *token.FileSet) {
		folder := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(folder, "cmd/") || folder == "internal/policy" {
			return
		}
		r, ok := ruleFor(folder)
		if !ok {
			t.Errorf("%s: no import rule; add one here", folder)
			return
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(r.not, imported) {
				t.Errorf("%s imports %s: %s", path, imported, r.why)
			}
			own, ok := strings.CutPrefix(imported, module)
			if ok && !slices.Contains(everywhere, own) && !below(own, r.folder) && !slices.ContainsFunc(r.may, func(f string) bool { return own == f }) {
				t.Errorf("%s imports %s: %s", path, own, r.why)
			}
		}
	})
}

// TestAllowancesAreUsed holds that the rules are the graph: what a package may import, some file of it does.
func TestAllowancesAreUsed(t *testing.T) {
	used := make(map[string]map[string]bool) // by folder of a rule
	eachGoFile(t, func(path string, file *ast.File, _ *token.FileSet) {
		r, ok := ruleFor(filepath.ToSlash(filepath.Dir(path)))
		if !ok || strings.HasSuffix(path, "_test.go") {
			return
		}
		if used[r.folder] == nil {
			used[r.folder] = make(map[string]bool)
		}
		for _, spec := range file.Imports {
			used[r.folder][strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module)] = true
		}
	})
	for _, r := range rules {
		for _, may := range r.may {
			if !used[r.folder][may] {
				t.Errorf("%s may import %s, and doesn't: take it off its list", r.folder, may)
			}
		}
	}
}

// TestArchitectureListsEveryPackage holds that the table of docs/architecture.md has each package with a rule, or the folder that it
// is in.
func TestArchitectureListsEveryPackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, row := range strings.Split(string(text), "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 2 {
			continue
		}
		for i, name := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				listed[name] = true
			}
		}
	}
	eachGoFile(t, func(path string, _ *ast.File, _ *token.FileSet) {
		folder, ok := strings.CutPrefix(filepath.ToSlash(filepath.Dir(path)), "internal/")
		if !ok || folder == "policy" || listed[folder] {
			return
		}
		listed[folder] = true // once
		t.Errorf("docs/architecture.md has no row for %s", folder)
	})
}

// TestStatesChangeInStepOnly holds that no program but the state machine changes the state of a build, save for the stamps of
// whoever saves it; levels/doc.go says why those can't hurt.
func TestStatesChangeInStepOnly(t *testing.T) {
	stamps := []string{"Epoch", "Updated", "Version"}
	eachGoFile(t, func(path string, file *ast.File, fset *token.FileSet) {
		folder := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, "_test.go") || below(folder, "internal/levels") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var changed []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				changed = n.Lhs
			case *ast.IncDecStmt:
				changed = []ast.Expr{n.X}
			}
			for _, x := range changed {
				if field := fieldOfState(x); field != "" && !slices.Contains(stamps, field) {
					t.Errorf("%s: %s of a state is changed; make it an event of levels", fset.Position(x.Pos()), field)
				}
			}
			return true
		})
	})
}

// fieldOfState returns the field of a variable or field named state that an expression is, or is in; "" if it is none.
func fieldOfState(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.IndexExpr:
		return fieldOfState(x.X)
	case *ast.StarExpr:
		return fieldOfState(x.X)
	case *ast.SelectorExpr:
		switch of := x.X.(type) {
		case *ast.Ident:
			if of.Name == "state" {
				return x.Sel.Name
			}
		case *ast.SelectorExpr:
			if of.Sel.Name == "state" {
				return x.Sel.Name
			}
		}
		return fieldOfState(x.X)
	}
	return ""
}

// ruleFor returns the rule with the longest folder that holds the given one.
func ruleFor(folder string) (rule, bool) {
	var best rule
	for _, r := range rules {
		if below(folder, r.folder) && len(r.folder) > len(best.folder) {
			best = r
		}
	}
	return best, best.folder != ""
}

func below(folder, of string) bool { return folder == of || strings.HasPrefix(folder, of+"/") }

// TestPackageComments holds that every package says what it is.
func TestPackageComments(t *testing.T) {
	comments := make(map[string]string)
	eachGoFile(t, func(path string, file *ast.File, _ *token.FileSet) {
		folder := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		comments[folder] += file.Doc.Text()
	})
	for folder, text := range comments {
		if len(strings.Fields(text)) < 8 {
			t.Errorf("%s has no package comment that says what it is", folder)
		}
	}
}

// TestNoSleepsOrSkips holds that tests wait for signals and not for time, and that none is passed over.
func TestNoSleepsOrSkips(t *testing.T) {
	eachGoFile(t, func(path string, file *ast.File, fset *token.FileSet) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch name := selector.Sel.Name; {
			case name == "Skip" || name == "Skipf" || name == "SkipNow":
				if x, ok := selector.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "f") {
					t.Errorf("%s: a test that can skip is a test that nobody runs", fset.Position(call.Pos()))
				}
			case name == "Sleep":
				if x, ok := selector.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s: a sleep hides a race; wait for a signal", fset.Position(call.Pos()))
				}
			}
			return true
		})
	})
}

// TestRootIsSmall holds that the top folder shows the architecture at a glance.
func TestRootIsSmall(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, e := range entries {
		switch e.Name() {
		case ".git", "bin", ".cache", ".stack", ".aerie": // not in the repository
		default:
			shown = append(shown, e.Name())
		}
	}
	const most = 16
	if len(shown) > most {
		t.Errorf("the root has %d entries, at most %d: %v", len(shown), most, shown)
	}
}

func eachGoFile(t *testing.T, check func(path string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case path == root:
			case strings.HasPrefix(name, "."), name == "bin", name == "testdata", name == "tools":
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files++
		check(relative, file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no Go file was read")
	}
}

// TestDocsNameTests holds that the tests which the docs name are there.
func TestDocsNameTests(t *testing.T) {
	tests := map[string]bool{}
	eachGoFile(t, func(path string, file *ast.File, _ *token.FileSet) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(path, "_test.go") {
				tests[f.Name.Name] = true
			}
		}
	})
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, word := range strings.Split(string(text), "`") {
			if i%2 == 1 && testName.MatchString(word) && !tests[word] {
				t.Errorf("%s names %s, and there is no such test", page, word)
			}
		}
	}
}

var testName = regexp.MustCompile(`^Test[A-Z]\w+$`)
