package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
)

func read(t *testing.T, path string) []line {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []line
	for in := bufio.NewScanner(bytes.NewReader(data)); in.Scan(); {
		var x line
		if err := json.Unmarshal(in.Bytes(), &x); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		all = append(all, x)
	}
	return all
}

// TestLines: a change is one line with who, what and the outcome, whatever the ids hold, and the file is its owner's alone.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := api.WithCaller(context.Background(), api.Caller{Name: "ci", Remote: "127.0.0.1:99"})
	l.Changed(ctx, api.Change{Action: "delete-documents", Corpus: "birds", Objects: []string{"a\x1b[31m\n{\"who\":\"root\"}", "b\u202e\u0085c"}, Counts: map[string]int{"leaves_removed": 3}})
	l.Changed(ctx, api.Change{Action: "delete-corpus", Corpus: "birds", Err: api.Conflictf("", "a build runs")})
	l.Changed(context.Background(), api.Change{Action: "start-build", Corpus: "birds", Objects: make([]string, 50), Err: errors.New("disk full")})
	got := read(t, path)
	if len(got) != 3 {
		t.Fatalf("%d lines: %+v", len(got), got)
	}
	first := got[0]
	if first.Who != "ci" || first.Remote != "127.0.0.1:99" || first.Action != "delete-documents" || first.Corpus != "birds" || first.Outcome != Done ||
		len(first.Objects) != 2 || first.Changed["leaves_removed"] != 3 || first.Time.IsZero() {
		t.Errorf("%+v", first)
	}
	for _, o := range first.Objects {
		if strings.ContainsAny(o, "\x1b\n\u202e\u0085") {
			t.Errorf("the line holds %q", o)
		}
	}
	if got[1].Outcome != Refused || got[1].Why != "a build runs" || got[2].Outcome != Failed || got[2].Who != "aerie" || got[2].Count != 50 || len(got[2].Objects) != mostObjects {
		t.Errorf("%+v", got[1:])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestMovedAway: a log that was moved away is begun anew, and a line that can't be written is in the program's log.
func TestMovedAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.jsonl")
	var own bytes.Buffer
	l, err := Open(path, slog.New(slog.NewJSONHandler(&own, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	one := func(corpus string) {
		l.Changed(context.Background(), api.Change{Action: "start-build", Corpus: corpus})
	}
	one("first")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	one("second")
	if old, now := read(t, path+".1"), read(t, path); len(old) != 1 || len(now) != 1 || now[0].Corpus != "second" {
		t.Errorf("%+v, then %+v", old, now)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	one("third")
	if text := own.String(); !strings.Contains(text, "can't be written") || !strings.Contains(text, `"corpus":"third"`) {
		t.Errorf("the program's log says %s", text)
	}
	if _, err := Open(path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestNoFile: without a file the lines are in the program's log.
func TestNoFile(t *testing.T) {
	var own bytes.Buffer
	l, err := Open("", slog.New(slog.NewJSONHandler(&own, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l.Changed(context.Background(), api.Change{Action: "gc", Corpus: "c"})
	var record struct {
		Msg   string
		Audit line
	}
	if err := json.Unmarshal(own.Bytes(), &record); err != nil || record.Msg != "audit" || record.Audit.Corpus != "c" || l.Close() != nil {
		t.Errorf("%v: %s", err, own.String())
	}
}
