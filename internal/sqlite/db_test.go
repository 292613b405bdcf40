package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// raw runs a statement on a home's file, past this package.
func raw(t *testing.T, home, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(home, FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(home string)
		want    string
	}{
		"a newer schema": {func(home string) {
			open(t, home, Config{}).Close()
			raw(t, home, "PRAGMA user_version = 99")
		}, "written by a newer aerie (schema 99, this one knows 4)"},
		"another program's database": {func(home string) { raw(t, home, "CREATE TABLE t (v)") }, "another program's database"},
		"no database": {func(home string) {
			if err := os.WriteFile(filepath.Join(home, FileName), bytes.Repeat([]byte("no database. "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not an aerie database"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			test.prepare(home)
			db, err := Open(home, Config{})
			if err == nil {
				db.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), FileName) {
				t.Errorf("error %q doesn't say %q", err, test.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Config{}); err == nil {
		t.Error("a file as the home folder is no error")
	}
	if _, err := Open(t.TempDir(), Config{LockTimeout: -1}); err == nil {
		t.Error("a lock timeout below 0 is no error")
	}
}

// withoutSources takes away what schemas 3 and 4 have added.
const withoutSources = "DROP INDEX documents_by_path; ALTER TABLE documents DROP COLUMN source; ALTER TABLE documents DROP COLUMN path; ALTER TABLE nodes DROP COLUMN updated; ALTER TABLE texts DROP COLUMN context; DROP TABLE history; "

// TestOldSchema: a home of schema 1 opens, keeps what it has, and takes what is new.
func TestOldSchema(t *testing.T) {
	home := t.TempDir()
	leaf := tree.Node{ID: tree.ID{1}, DocumentID: "d", Text: "text", NLeaves: 1, Died: tree.Alive, Vector: []float32{1, 0}}
	sum := tree.Node{ID: tree.ID{2}, Level: 1, DocumentID: tree.CorpusTree, ChunkIndex: -1, Children: []tree.ID{leaf.ID}, Text: "sum", NLeaves: 1, Died: tree.Alive, Vector: []float32{1, 0}}
	db := open(t, home, Config{})
	if err := db.Store().Put(t.Context(), "c", []tree.Node{leaf, sum}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, home, "ALTER TABLE nodes DROP COLUMN author; ALTER TABLE nodes DROP COLUMN unseen; ALTER TABLE nodes DROP COLUMN formed; "+withoutSources+"PRAGMA user_version = 1")
	st := open(t, home, Config{}).Store()
	everything := store.Fields{Text: true, Vector: true}
	got, err := st.Get(t.Context(), "c", []tree.ID{leaf.ID, sum.ID}, everything)
	if err != nil || len(got) != 2 || got[1].Text != "sum" || got[1].Carried() || got[1].Unseen != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	carried := sum
	carried.ID, carried.Author, carried.Unseen = tree.ID{3}, sum.ID, 5
	if err := st.Put(t.Context(), "c", []tree.Node{carried}); err != nil {
		t.Fatal(err)
	}
	if got, err := st.Get(t.Context(), "c", []tree.ID{carried.ID}, everything); err != nil || got[0].Author != sum.ID || got[0].Unseen != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestHistoryOfAnOldHome: the history of a home of schema 3 begins with the build that it knows.
func TestHistoryOfAnOldHome(t *testing.T) {
	home := t.TempDir()
	db := open(t, home, Config{})
	lease, err := db.Builds().Acquire(t.Context(), "c", levels.RightBuild, "a", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	state := &levels.State{
		Corpus: "c", Build: "b1", Generation: 2, Status: levels.Built, Settings: map[string]string{"summaries.model": "m"},
		Buried: []levels.Burial{{Task: "t", Error: "an error of the endpoint"}}, Started: time.Unix(1, 0).UTC(),
	}
	if err := db.Builds().Save(t.Context(), lease, state); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, home, "DROP TABLE history; PRAGMA user_version = 3")
	past, err := open(t, home, Config{}).Builds().History(t.Context(), "c")
	if err != nil || len(past) != 1 || past[0].Build != "b1" || past[0].Generation != 2 || !past[0].Started.Equal(state.Started) || len(past[0].Buried) != 0 {
		t.Errorf("%+v, %v", past, err)
	}
}

func TestHomeNames(t *testing.T) {
	for _, name := range []string{"with space", "percent%20", "hash#tag", "question?mark", "quote'\"", "домой", "deep/er/still"} {
		home := filepath.Join(t.TempDir(), filepath.FromSlash(name))
		db := open(t, home, Config{})
		if err := db.Builds().RequestStop(t.Context(), "c", "b", levels.Stop{Status: levels.Paused, Cause: levels.CauseAsked}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(home, FileName)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Several processes may create a home at the same moment.
func TestOpenTogether(t *testing.T) {
	home := filepath.Join(t.TempDir(), "new")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			db, err := Open(home, Config{})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := db.Corpora().Update(context.Background(), "c", func(c *levels.Corpus) error { c.Changes++; return nil }); err != nil {
				t.Errorf("handle %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	c, err := open(t, home, Config{}).Corpora().Load(t.Context(), "c")
	if err != nil || c.Changes != 8 {
		t.Errorf("%+v, %v; want 8 changes", c, err)
	}
}

func TestClosed(t *testing.T) {
	db := open(t, t.TempDir(), Config{})
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, countErr := db.Store().Count(t.Context(), "c", store.AnyLevel())
	_, loadErr := db.Corpora().Load(t.Context(), "c")
	for what, err := range map[string]error{
		"Count": countErr, "Load": loadErr,
		"Put":  db.Store().Put(t.Context(), "c", []tree.Node{crashLeaf("d", 0)}),
		"Drop": db.Barrier().Drop(t.Context(), "c", "b"),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
}

// What was reported as written is there for the next process, and the log is folded into the file.
func TestReopen(t *testing.T) {
	home := t.TempDir()
	db := open(t, home, Config{})
	want := crashLeaf("d", 3)
	want.Metadata = map[string]any{"k": "v"}
	if err := db.Store().Put(t.Context(), "c", []tree.Node{want}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, FileName+"-wal")); !os.IsNotExist(err) {
		t.Errorf("the write-ahead log is still there: %v", err)
	}
	got, err := open(t, home, Config{}).Store().Get(t.Context(), "c", []tree.ID{want.ID}, store.Fields{Text: true})
	if err != nil || len(got) != 1 || got[0].Text != want.Text {
		t.Errorf("%+v, %v", got, err)
	}
}

// What is deleted isn't in any file afterwards: neither text, nor words, nor the document's name, nor metadata.
func TestDeletedTextLeavesTheFile(t *testing.T) {
	for name, test := range map[string]struct {
		others int // leaves that stay, so that the keyword index is changed in place or built anew
		remove func(st *Store, ids []tree.ID) error
	}{
		"delete, few others":  {10, func(st *Store, ids []tree.ID) error { return st.Delete(context.Background(), "c", ids) }},
		"delete, many others": {800, func(st *Store, ids []tree.ID) error { return st.Delete(context.Background(), "c", ids) }},
		"drop":                {10, func(st *Store, ids []tree.ID) error { return st.Drop(context.Background(), "c") }},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			db := open(t, home, Config{})
			var ids []tree.ID
			var nodes []tree.Node
			for i := range 8 {
				n := crashLeaf("zygomorphdocument", i)
				n.Text += " Zygomorphic zygomorphically zygomorphtext " + strings.Repeat("zygomorphrepeated ", 700)
				n.Metadata = map[string]any{"zygomorphkey": "zygomorphvalue"}
				nodes, ids = append(nodes, n), append(ids, n.ID)
			}
			for i := range test.others {
				nodes = append(nodes, crashLeaf("other", i))
			}
			if err := db.Store().Put(t.Context(), "c", nodes); err != nil {
				t.Fatal(err)
			}
			if found := grepHome(t, home, "zygomorph"); len(found) == 0 {
				t.Fatal("the text can't be found while it is there, so this test says nothing")
			}
			if err := test.remove(db.store, ids); err != nil {
				t.Fatal(err)
			}
			checkIntegrity(t, db, "c")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if d := os.Getenv("KEEP"); d != "" {
				copyFile(filepath.Join(home, FileName), d)
			}
			if found := grepHome(t, home, "zygomorph", "ygomorph"); len(found) > 0 {
				t.Errorf("the text is still in %v", found)
			}
		})
	}
}

// grepHome returns the files that hold one of the words, in any case.
func grepHome(t *testing.T, home string, words ...string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(home, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if bytes.Contains(bytes.ToLower(b), []byte(word)) {
				found = append(found, filepath.Base(path)+": "+word)
			}
		}
	}
	return found
}

// The statements that page through a corpus must not sort it: a plan with a temporary b-tree would hold all of it.
func TestEachDoesNotSort(t *testing.T) {
	db := open(t, t.TempDir(), Config{})
	if err := db.Store().Put(t.Context(), "c", []tree.Node{crashLeaf("d", 0)}); err != nil {
		t.Fatal(err)
	}
	err := db.read(t.Context(), func(s *session) error {
		query, args, err := s.eachQuery("c", store.AnyLevel().VisibleAt(1), store.Fields{Text: true, Vector: true, Metadata: true})
		if err != nil {
			return err
		}
		return s.rows("EXPLAIN QUERY PLAN "+query, append([]any{0}, args...), func(scan func(...any) error) error {
			var id, parent, unused int
			var detail string
			if err := scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			if strings.Contains(detail, "TEMP B-TREE") || strings.HasPrefix(detail, "SCAN") {
				t.Errorf("plan: %s", detail)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
