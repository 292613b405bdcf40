package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// read is what a reading yields: documents, problems and what was skipped, as they came.
type read struct {
	Documents []Document
	Problems  []Problem
	Skipped   []string
}

func (r *read) options(base string) Options {
	return Options{
		Base: base, Problem: func(p Problem) { r.Problems = append(r.Problems, p) },
		Skip: func(_, reason string) { r.Skipped = append(r.Skipped, reason) },
	}
}

func (r *read) take(d Document) error { r.Documents = append(r.Documents, d); return nil }

// TestStreamIsTheSameAsFiles packs files into a stream, and reads from it what is read from the files.
func TestStreamIsTheSameAsFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# One\n\nText with \"quotes\" and a <tag>.\n", "b.html": "<p>Two <b>words</b></p>", "blank.txt": " \n", "c.bin": "x",
		"latin.txt": "caf\xe9", "nul.txt": "a\x00",
		"rows.jsonl": "\xef\xbb\xbf{\"id\":\"1\",\"text\":\"One.\",\"year\":5}\r\n\n{\"id\":2,\"text\":\"Two.\",\"embedding\":[1,0.5]}\n" +
			"{\"id\":\"1\",\"text\":\"Twice.\"}\nnot JSON\n{\"source\":{\"name\":\"x\",\"line\":9}}\n{\"document\": {\"id\":\"x\",\"text\":\"y\"}}\n" +
			"{\"end\":{}}\n{\"id\":\"3\",\"document_id\":\"d\",\"text\":\"bad \xff\"}\n{\"id\":\"4\",\"text\":\"No end\"}",
		"sub/more.ndjson": "{\"id\":\"5\",\"text\":\"Five.\"}\n{\"id\":\"1\",\"text\":\"Again.\"}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var files, stream read
	if err := Read(t.Context(), []string{dir}, files.options(dir), files.take); err != nil {
		t.Fatal(err)
	}
	if len(files.Documents) < 6 || len(files.Problems) < 6 || len(files.Skipped) == 0 {
		t.Fatalf("the files have too little to compare: %+v", files)
	}
	var packed bytes.Buffer
	p := NewPacker(&packed)
	if err := Pieces(t.Context(), []string{dir}, Options{Base: dir, Problem: p.Problem, Skip: p.Skip}, func(x Piece) error { return p.Piece(x, nil) }); err != nil {
		t.Fatal(err)
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	if err := ReadStream(t.Context(), iotest.OneByteReader(&packed), stream.options(""), stream.take); err != nil {
		t.Fatal(err)
	}
	// A row that looks like a note is moved by a blank, which its sentence counts.
	for i := range stream.Problems {
		stream.Problems[i].Error = strings.ReplaceAll(stream.Problems[i].Error, "byte 2", "byte 1")
	}
	if diff := cmp.Diff(files, stream); diff != "" {
		t.Errorf("(-files +stream)\n%s", diff)
	}
}

// TestStreamNotes reads a stream as a program would write it.
func TestStreamNotes(t *testing.T) {
	const stream = `{"id":"1","text":"A row."}
{"document": {"id":"a.html","format":"html","text":"<p>A <i>page</i>.</p>"}}
{"document":{"id":"b","text":"A text."}}
{"document":{"id":"c","text":"x","format":"pdf"}}
{"document":{"text":"x"}}
{"document":{"id":"d","text":"x","titel":"y"}}
{"vectors":{"of":"v.npy","width":2}}
{"vector":{"values":"AACAPwAAAAA="}}
{"id":"2","text":"With a vector apart.","embedding":[9,9,9]}
{"vector":{"values":"AACA"}}
{"id":"3","text":"Without one."}
{"id":"4"}
`
	var got read
	if err := ReadStream(t.Context(), strings.NewReader(stream), got.options(""), got.take); err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, d := range got.Documents {
		line := fmt.Sprintf("%s %s:%d %q", d.ID, d.Source, d.Line, d.Text)
		if d.Row != nil {
			line += fmt.Sprintf(" %v %s", d.Row.Vector, d.Row.VectorOf)
		}
		documents = append(documents, line)
	}
	want := []string{
		`1 -:1 "A row." []`, `a.html a.html:0 "A page." `, `b b:0 "A text."`, `2 -:9 "With a vector apart." [1 0] v.npy`, `3 -:11 "Without one." []`,
	}
	for i := range want {
		want[i], documents[i] = strings.TrimSpace(want[i]), strings.TrimSpace(documents[i])
	}
	if diff := cmp.Diff(want, documents); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var problems []string
	for _, p := range got.Problems {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", p.Source, p.Line, p.Error))
	}
	wantProblems := []string{
		`c:0: its format is "pdf"; it must be text, html or code`, `:0: line 5: the document has no id`, `-:6: broken line: unknown field "titel"`,
		`-:10: the vector before it: 3 bytes are no float32 values`, `-:12: the row has no text: one of the keys text, page_content, content, body, chunk must hold it`,
	}
	if diff := cmp.Diff(wantProblems, problems); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestStreamBreaksOff: a stream whose reader fails, or that names its sources and has no end, is an error after what came before.
func TestStreamBreaksOff(t *testing.T) {
	const row = `{"id":"1","text":"A row."}` + "\n"
	failing := errors.New("the wire was cut")
	for name, c := range map[string]struct {
		text  string
		fails bool
		want  string
	}{
		"reader fails":       {row + `{"id":"2","te`, true, "after line 1: the wire was cut"},
		"no end":             {`{"source":{"name":"a","line":1}}` + "\n" + row, false, "after line 2"},
		"end before the end": {`{"source":{"name":"a","line":1}}` + "\n{\"end\":{}}\n{\"source\":{\"name\":\"b\",\"line\":1}}\n" + row, false, "after line 4"},
	} {
		t.Run(name, func(t *testing.T) {
			var got read
			src := iotest.DataErrReader(strings.NewReader(c.text))
			if c.fails {
				src = &cut{strings.NewReader(c.text), failing}
			}
			err := ReadStream(t.Context(), src, got.options(""), got.take)
			if !errors.Is(err, ErrBrokenOff) || !strings.Contains(err.Error(), c.want) || c.fails != errors.Is(err, failing) {
				t.Errorf("%v", err)
			}
			if len(got.Documents) != 1 || len(got.Problems) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ReadStream(ctx, strings.NewReader(row), Options{}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// cut reads a text and fails at its end.
type cut struct {
	*strings.Reader
	err error
}

func (c *cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil {
		err = c.err
	}
	return n, err
}
