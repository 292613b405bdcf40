package natsqueue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

// holds returns the files under a folder that hold a text.
func holds(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// many is as many clusters as make a plan of several chunks.
const many = 5000

// books is a queue with answers of two corpora, a buried task of each, plans and a record.
func books(t *testing.T, dir string) *Conn {
	t.Helper()
	c := embedded(t, dir)
	for _, corpus := range []string{"a", "b"} {
		for i := range 40 {
			e := journal.Entry{Text: fmt.Sprintf("answer of corpus %s, number %d", corpus, i), Corpus: corpus, Build: "x", OutputTokens: 7}
			if err := c.Journal().Record(t.Context(), queuetest.JournalKey(e.Text), e); err != nil {
				t.Fatal(err)
			}
		}
		task := queue.Task{Corpus: corpus, Build: "x", Level: 1, ID: tree.ID{1}, Digest: "d", Recipe: "r"}
		if err := c.Queue().Publish(t.Context(), []queue.Task{task}); err != nil {
			t.Fatal(err)
		}
		d, err := c.Queue().Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Bury(t.Context(), "refused", "the words of corpus "+corpus); err != nil {
			t.Fatal(err)
		}
		putPlan(t, c, planOf(corpus, "x", 1, many)) // several chunks
	}
	if err := c.Plans().PutTree(t.Context(), &levels.Corpus{Name: "b", Changes: 3}); err != nil {
		t.Fatal(err)
	}
	return c
}

// others holds corpus b to be as it was.
func others(t *testing.T, c *Conn) {
	t.Helper()
	for i := range 40 {
		text := fmt.Sprintf("answer of corpus b, number %d", i)
		if e, err := c.Journal().Lookup(t.Context(), queuetest.JournalKey(text)); err != nil || e.Text != text {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if dead, err := c.Queue().Dead(t.Context(), "b", "x"); err != nil || len(dead) != 1 || dead[0].Error != "the words of corpus b" {
		t.Errorf("%+v, %v", dead, err)
	}
	want := planOf("b", "x", 1, many)
	if p, err := c.Plans().Plan(t.Context(), want.Of()); err != nil || !cmp.Equal(p, want) {
		t.Errorf("the plan: %v", err)
	}
	if r, err := c.Plans().Tree(t.Context(), "b"); err != nil || r.Changes != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRewriteLeavesNoByte: what was erased and purged is in no file of the queue; all else is as it was, also after a restart.
func TestRewriteLeavesNoByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := books(t, dir)
	if n, err := c.Journal().Erase(t.Context(), "a"); err != nil || n != 40 {
		t.Fatal(n, err)
	}
	if err := c.Queue().Purge(t.Context(), "a", "x"); err != nil {
		t.Fatal(err)
	}
	if err := c.Rewrite(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"answer of corpus a", "the words of corpus a"} {
		if files := holds(t, dir, text); len(files) > 0 {
			t.Errorf("%q is in %v", text, files)
		}
	}
	if len(holds(t, dir, "answer of corpus b")) == 0 {
		t.Error("this test looks in the wrong place")
	}
	others(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	others(t, embedded(t, dir))
}

// TestRewriteKilled: wherever it is killed, the next start has everything that there was.
func TestRewriteKilled(t *testing.T) {
	t.Parallel()
	for _, stream := range rewritten {
		for _, back := range []int{-1, 1} { // messages that were put back; -1: killed before the stream was emptied
			dir := t.TempDir()
			c := books(t, dir)
			saved := c.savedPath(stream)
			if err := c.save(t.Context(), stream, saved); err != nil {
				t.Fatal(err)
			}
			if back >= 0 {
				if err := c.purge(t.Context(), stream, ""); err != nil {
					t.Fatal(err)
				}
			}
			for i, msg := range readSaved(t, saved) {
				if i < back {
					if err := c.putBack(t.Context(), &msg); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			c = embedded(t, dir)
			others(t, c)
			if _, err := os.Stat(saved); err == nil {
				t.Errorf("%s is still there", saved)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func readSaved(t *testing.T, path string) []storedMsg {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []storedMsg
	for line := range bytes.Lines(data) {
		var msg storedMsg
		if err := json.Unmarshal(line, &msg); err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}
