package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/api"
)

// write makes files, each with its folder.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// listed are the ids of a place's documents.
func listed(t *testing.T, flags ...string) []string {
	t.Helper()
	var ids []string
	for _, d := range decode[documentsResult](t, aerie(t, append([]string{"documents", "--limit", "0", "-o", "json"}, flags...)...).want(t, exitDone)).Documents {
		ids = append(ids, d.ID)
	}
	return ids
}

func wantIDs(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// everywhere runs a test with a home that isn't in a project, and again through a coordinator.
func everywhere(t *testing.T, test func(t *testing.T, dir string, place []string)) {
	t.Run("home", func(t *testing.T) {
		fresh(t)
		dir := t.TempDir()
		test(t, dir, []string{"--home", filepath.Join(t.TempDir(), "kept")})
	})
	t.Run("coordinator", func(t *testing.T) {
		fresh(t)
		dir := t.TempDir()
		test(t, dir, []string{"--server", serveHome(t)})
	})
}

// TestC10SourcesDontCollide: two folders that look alike are four documents, and none prunes the other's.
func TestC10SourcesDontCollide(t *testing.T) {
	everywhere(t, func(t *testing.T, dir string, place []string) {
		write(t, map[string]string{
			filepath.Join(dir, "one/docs/r.md"): "The otter of one.", filepath.Join(dir, "one/docs/s.md"): "The heron of one.",
			filepath.Join(dir, "two/docs/r.md"): "The otter of two.", filepath.Join(dir, "two/docs/s.md"): "The heron of two.",
		})
		in := func(folder string, code int, args ...string) api.IngestReport {
			t.Helper()
			t.Chdir(filepath.Join(dir, folder))
			return decode[api.IngestReport](t, aerie(t, slices.Concat([]string{"ingest", "-o", "json"}, args, place)...).want(t, code))
		}
		if r := in("one", exitDone, "docs"); r.Documents.Added != 2 {
			t.Errorf("one: %+v", r.Documents)
		}
		if r := in("two", exitDone, "docs"); r.Documents.Added != 2 || r.Documents.Changed != 0 {
			t.Errorf("two: %+v", r.Documents)
		}
		four := listed(t, place...)
		if len(four) != 4 || !slices.Contains(four, "docs/r.md") {
			t.Errorf("documents %q", four)
		}
		for _, folder := range []string{"one", "two"} {
			if r := in(folder, exitDone, "--prune", "docs"); r.Documents != (api.DocumentCounts{Unchanged: 2}) || len(r.Warnings) > 0 {
				t.Errorf("%s again: %+v, %v", folder, r.Documents, r.Warnings)
			}
		}
		if err := os.Remove(filepath.Join(dir, "two/docs/s.md")); err != nil {
			t.Fatal(err)
		}
		if r := in("one", exitDone, "--prune", "docs"); r.Documents.Removed != 0 {
			t.Errorf("one pruned what is of two: %+v", r.Documents)
		}
		if r := in("two", exitDone, "--prune", "docs"); r.Documents.Removed != 1 {
			t.Errorf("two: %+v", r.Documents)
		}
		if err := os.Remove(filepath.Join(dir, "one/docs/r.md")); err != nil { // the other keeps its id when the short one is free
			t.Fatal(err)
		}
		in("one", exitDone, "--prune", "docs")
		if r := in("two", exitDone, "docs"); r.Documents != (api.DocumentCounts{Unchanged: 1}) {
			t.Errorf("two when one has gone: %+v", r.Documents)
		}
		if got := listed(t, place...); len(got) != 2 {
			t.Errorf("left: %q", got)
		}
	})
}

// TestC10OneFolderByManyPaths: a folder is the same documents from wherever it is named, by link, by its absolute path, from above, in
// parts, and twice at once.
func TestC10OneFolderByManyPaths(t *testing.T) {
	everywhere(t, func(t *testing.T, dir string, place []string) {
		docs := filepath.Join(dir, "project/docs")
		write(t, map[string]string{
			filepath.Join(docs, "r.md"): "The otter swims.", filepath.Join(docs, "sub/s.md"): "The heron waits.", filepath.Join(docs, "t.csv"): "bird,food\nowl,voles\nkite,mice\n",
		})
		if err := os.Symlink(docs, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		before := []string(nil)
		for _, step := range []struct{ from, path string }{
			{"project", "docs"}, {"project", "docs"}, {"project", docs}, {".", "project/docs"}, {".", "project"}, {".", "link"}, {"project/docs", "."},
			{"project/docs/sub", "s.md"}, {".", filepath.Join(dir, "link", "sub")}, {".", filepath.Join(dir, "link", "r.md")},
		} {
			t.Chdir(filepath.Join(dir, step.from))
			r := decode[api.IngestReport](t, aerie(t, slices.Concat([]string{"ingest", step.path, "--prune", "-o", "json"}, place)...).want(t, exitDone))
			now := listed(t, place...)
			if before == nil {
				before = now
				continue
			}
			if wantIDs(t, step.from+" "+step.path, before, now); r.Documents.Added+r.Documents.Changed+r.Documents.Removed > 0 || len(r.Warnings) > 0 {
				t.Errorf("%s %s: %+v, %v", step.from, step.path, r.Documents, r.Warnings)
			}
		}
		if len(before) != 3 {
			t.Errorf("documents %q", before)
		}
	})
}

// TestC10NamedSources: a name makes ids that stay when the folder moves, from one machine or another; what the folder lacks is pruned,
// and of nothing else.
func TestC10NamedSources(t *testing.T) {
	everywhere(t, func(t *testing.T, dir string, place []string) {
		write(t, map[string]string{
			filepath.Join(dir, "a/r.md"): "The otter swims.", filepath.Join(dir, "a/s.md"): "The heron waits.", filepath.Join(dir, "a/rows.jsonl"): `{"id":"1","text":"First row."}` + "\n",
			filepath.Join(dir, "b/r.md"): "Another otter.", filepath.Join(dir, "b/rows.jsonl"): `{"id":"1","text":"Another first row."}` + "\n",
		})
		t.Chdir(dir)
		in := func(args ...string) api.IngestReport {
			t.Helper()
			return decode[api.IngestReport](t, aerie(t, slices.Concat([]string{"ingest", "-o", "json"}, args, place)...).want(t, exitDone))
		}
		in("--source", "hand", "a")
		in("--source", "book", "b")
		five := []string{"book/1", "book/r.md", "hand/1", "hand/r.md", "hand/s.md"}
		wantIDs(t, "two sources", five, listed(t, place...))
		wantIDs(t, "of one", five[:2], listed(t, append([]string{"--source", "book"}, place...)...))
		wantIDs(t, "with a prefix", five[3:4], listed(t, append([]string{"hand/r"}, place...)...))
		if err := os.Rename("a", "moved"); err != nil {
			t.Fatal(err)
		}
		r := in("--source", "hand", "--prune", "moved")
		if r.Documents != (api.DocumentCounts{Unchanged: 3}) || len(r.Warnings) != 3 || !strings.Contains(r.Warnings[0].Error, "was read at") {
			t.Errorf("moved: %+v, %v", r.Documents, r.Warnings)
		}
		wantIDs(t, "moved", five, listed(t, place...))
		if r = in("--source", "hand", "--prune", "moved"); r.Documents.Unchanged != 3 || len(r.Warnings) > 0 {
			t.Errorf("again: %+v, %v", r.Documents, r.Warnings)
		}
		if err := os.Remove("moved/s.md"); err != nil {
			t.Fatal(err)
		}
		write(t, map[string]string{"moved/rows.jsonl": `{"id":"2","text":"Second row."}` + "\n"})
		if r = in("--source", "hand", "--prune", "moved"); r.Documents.Removed != 2 || r.Documents.Added != 1 {
			t.Errorf("pruned: %+v", r.Documents)
		}
		wantIDs(t, "pruned", []string{"book/1", "book/r.md", "hand/2", "hand/r.md"}, listed(t, place...))
		r = decode[api.IngestReport](t, aerie(t, slices.Concat([]string{"delete", "--source", "hand", "-o", "json"}, place)...).want(t, exitDone))
		if r.Documents.Removed != 2 {
			t.Errorf("deleted: %+v", r.Documents)
		}
		aerie(t, slices.Concat([]string{"delete", "--prefix", "book/r", "-o", "json"}, place)...).want(t, exitDone)
		wantIDs(t, "deleted", []string{"book/1"}, listed(t, place...))
		if r := aerie(t, slices.Concat([]string{"delete", "--source", "nobody"}, place)...).want(t, exitFailed); !strings.Contains(r.stderr, `--source "nobody"`) {
			t.Error(r.stderr)
		}
		for _, bad := range []string{"/abs", "a:b", "end/", " x", "a\tb"} {
			if r := aerie(t, slices.Concat([]string{"ingest", "--source", bad, "b"}, place)...).want(t, exitUsage); !strings.Contains(r.stderr, "--source") {
				t.Errorf("%q: %s", bad, r.stderr)
			}
		}
	})
}

// TestC10MovedWithoutAName: a folder that moved takes the place of what was there before only under the same ids; else what is left of
// the old one is named, and stays until somebody deletes it.
func TestC10MovedWithoutAName(t *testing.T) {
	fresh(t)
	write(t, map[string]string{"docs/r.md": "The otter swims.", "docs/s.md": "The heron waits."})
	aerie(t, "ingest", "docs").want(t, exitDone)
	if err := os.Rename("docs", "texts"); err != nil {
		t.Fatal(err)
	}
	r := decode[api.IngestReport](t, aerie(t, "ingest", "--prune", "texts", "-o", "json").want(t, exitDone))
	if r.Documents.Added != 2 || r.Documents.Removed != 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Error, "aerie delete --source") {
		t.Fatalf("%+v, %v", r.Documents, r.Warnings)
	}
	aerie(t, "delete", "--source", r.Warnings[0].Source).want(t, exitDone)
	wantIDs(t, "then", []string{"texts/r.md", "texts/s.md"}, listed(t))
}

// TestC10RowsThatMove: rows keep the ids that they say; that they come from another file now is said.
func TestC10RowsThatMove(t *testing.T) {
	fresh(t)
	write(t, map[string]string{"a.jsonl": `{"id":"1","text":"First."}` + "\n", "b.jsonl": `{"id":"1","text":"Changed."}` + "\n"})
	aerie(t, "ingest", "a.jsonl").want(t, exitDone)
	r := aerie(t, "ingest", "b.jsonl").want(t, exitDone)
	if !strings.Contains(r.stdout, `warning, b.jsonl: document "1" was read at`) || !strings.Contains(r.stdout, "1 changed") {
		t.Error(r.stdout)
	}
	if r = aerie(t, "ingest", "b.jsonl").want(t, exitDone); strings.Contains(r.stdout, "warning") {
		t.Error(r.stdout)
	}
}

// TestC16RowsThatAreGone: rows that a file lacks go with --prune, then the file with all its rows; a file with a fault loses none.
func TestC16RowsThatAreGone(t *testing.T) {
	everywhere(t, func(t *testing.T, dir string, place []string) {
		t.Chdir(dir)
		row := func(id string) string { return `{"id":"` + id + `","text":"Row ` + id + ` of the file."}` + "\n" }
		in := func(code int, args ...string) api.IngestReport {
			t.Helper()
			return decode[api.IngestReport](t, aerie(t, slices.Concat([]string{"ingest", "--prune", "-o", "json"}, args, place)...).want(t, code))
		}
		write(t, map[string]string{"data/rows.jsonl": row("a") + row("b") + row("c"), "data/other.jsonl": row("x"), "single.jsonl": row("s") + row("t")})
		in(exitDone, "data", "single.jsonl")
		write(t, map[string]string{"data/rows.jsonl": row("a") + "{broken\n", "single.jsonl": row("s")})
		if r := in(exitLeftOut, "data"); r.Documents.Removed != 0 {
			t.Errorf("a broken file: %+v", r.Documents)
		}
		write(t, map[string]string{"data/rows.jsonl": row("a") + row("c")})
		if r := in(exitDone, "data"); r.Documents.Removed != 1 {
			t.Errorf("a row less: %+v", r.Documents)
		}
		if r := in(exitDone, "single.jsonl"); r.Documents.Removed != 1 {
			t.Errorf("a row less in a named file: %+v", r.Documents)
		}
		wantIDs(t, "rows", []string{"a", "c", "s", "x"}, listed(t, place...))
		if err := os.Remove("data/rows.jsonl"); err != nil {
			t.Fatal(err)
		}
		if r := in(exitDone, "data"); r.Documents.Removed != 2 {
			t.Errorf("no file: %+v", r.Documents)
		}
		wantIDs(t, "then", []string{"s", "x"}, listed(t, place...))
	})
}

// TestDocuments: what is there, with where it comes from and whether the tree knows it.
func TestDocuments(t *testing.T) {
	fresh(t)
	write(t, map[string]string{"docs/r.md": "The otter swims in the river.", "docs/s.md": "The heron waits by the water.", "docs/t.md": "The kite circles."})
	aerie(t, "ingest", "docs").want(t, exitDone)
	page := decode[documentsResult](t, aerie(t, "documents", "--limit", "2", "-o", "json").want(t, exitDone))
	if len(page.Documents) != 2 || page.Next == "" {
		t.Fatalf("%+v", page)
	}
	d := page.Documents[0]
	if d.ID != "docs/r.md" || d.Leaves != 1 || d.Tokens < 5 || d.State != api.DocumentNew || d.Updated.IsZero() || filepath.Base(d.Source) != "docs" || filepath.Base(d.Path) != "r.md" {
		t.Errorf("%+v", d)
	}
	aerie(t, "build", "--force", "--build.min_chunks", "3").want(t, exitDone)
	for _, d := range lines[api.Document](t, aerie(t, "documents", "-o", "jsonl").want(t, exitDone)) {
		if d.State != api.DocumentBuilt {
			t.Errorf("after a build: %+v", d)
		}
	}
	if r := aerie(t, "documents", "docs/s").want(t, exitDone); !strings.Contains(r.stdout, "docs/s.md") || strings.Contains(r.stdout, "docs/r.md") || !strings.Contains(r.stdout, "tokens") {
		t.Error(r.stdout)
	}
	aerie(t, "documents", "--limit", "-1").want(t, exitUsage)
	aerie(t, "documents", "--corpus", "nowhere").want(t, exitFailed)
}
