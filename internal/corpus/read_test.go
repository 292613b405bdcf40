package corpus

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// folder writes files into a temporary folder and returns it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// harvest is what came out of a Read.
type harvest struct {
	docs     []Document
	problems []string
	skipped  map[string]int
}

func readPaths(t *testing.T, base string, stdin io.Reader, paths ...string) harvest {
	t.Helper()
	h := harvest{skipped: map[string]int{}}
	opts := Options{
		Base: base, Stdin: stdin,
		Problem: func(p Problem) {
			h.problems = append(h.problems, fmt.Sprintf("%s:%d: %s", filepath.Base(p.Source), p.Line, p.Error))
		},
		Skip: func(_, reason string) { h.skipped[reason]++ },
	}
	err := Read(context.Background(), paths, opts, func(d Document) error {
		h.docs = append(h.docs, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h harvest) texts() map[string]string {
	out := map[string]string{}
	for _, d := range h.docs {
		out[d.ID] = d.Text
	}
	return out
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

func zstded(s string) string {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		panic(err)
	}
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

func TestReadAFolder(t *testing.T) {
	dir := folder(t, map[string]string{
		"docs/a.md": "# A\n", "docs/b.txt": "\xef\xbb\xbfwith a mark\r\n", "docs/c.rst": "C\n=\n", "docs/D.MD": "shouting", "docs/sub/e.html": "<p>E &amp; e",
		"docs/f.txt.gz": gzipped("packed"), "docs/g.md.zst": zstded("pressed"), "docs/h.jsonl": `{"id":"row","text":"of h"}` + "\n",
		"docs/.hidden.md": "no", "docs/.git/x.md": "no", "docs/image.png": "no", "docs/Makefile": "all:\n", "docs/k.bin.gz": "no", "docs/blank.md": " \n",
	})
	h := readPaths(t, dir, nil, filepath.Join(dir, "docs"))
	want := map[string]string{
		"docs/a.md": "# A\n", "docs/b.txt": "with a mark\r\n", "docs/c.rst": "C\n=\n", "docs/D.MD": "shouting", "docs/sub/e.html": "E & e",
		"docs/f.txt.gz": "packed", "docs/g.md.zst": "pressed", "row": "of h", "docs/Makefile": "all:\n", "docs/blank.md": " \n",
	}
	if diff := cmp.Diff(want, h.texts()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{SkipExtension: 2}, h.skipped); diff != "" {
		t.Error(diff)
	}
	if len(h.problems) != 0 {
		t.Error(h.problems)
	}
	var order []string
	for _, d := range h.docs {
		order = append(order, filepath.Base(d.Source))
	}
	if diff := cmp.Diff([]string{"D.MD", "Makefile", "a.md", "b.txt", "blank.md", "c.rst", "f.txt.gz", "g.md.zst", "h.jsonl", "e.html"}, order); diff != "" {
		t.Errorf("order: %s", diff)
	}
}

func TestFileIDs(t *testing.T) {
	for _, test := range []struct{ base, path, want string }{
		{"/srv/docs-project", "/srv/docs-project/docs/a.md", "docs/a.md"},
		{"/srv/docs-project", "/srv/docs-project/a.md", "a.md"},
		{"/srv/docs-project", "/srv/docs-projects/a.md", "/srv/docs-projects/a.md"},
		{"/srv/docs-project", "/srv/a.md", "/srv/a.md"},
		{"/srv/docs-project", "/srv/docs-project/../a.md", "/srv/a.md"},
		{"/srv/docs-project", "/srv/docs-project/..a.md", "..a.md"},
		{"", "/srv/docs-project/a.md", "/srv/docs-project/a.md"},
		{"/", "/srv/a.md", "srv/a.md"},
	} {
		got, err := FileID(test.base, test.path)
		if err != nil || got != test.want {
			t.Errorf("FileID(%q, %q) = %q, %v, want %q", test.base, test.path, got, err, test.want)
		}
	}
}

func TestReadReportsWhatItCannotUseAndGoesOn(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.txt": "one\ntwo \xff\n", "b.txt": "one\nNUL \x00", "c.txt": "\xff\xfeU\x00", "d.md.gz": "not packed", "e.md.zst": "not packed", "f.txt.gz": gzipped(strings.Repeat("cut off", 99))[:20],
		"g.html": "<p>\x00</p>", "z.md": "fine",
	})
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
	h := readPaths(t, dir, nil, dir)
	for i, want := range []string{
		"link.md:0: stat: no such file or directory", // found while walking
		"a.txt:2: byte 8 is 0xff, which is not UTF-8; --encoding says", "b.txt:2: NUL at byte 8: it is not a text",
		"d.md.gz:0: it is not gzip", "e.md.zst:0: ", "f.txt.gz:0: unexpected EOF",
	} {
		if i >= len(h.problems) || !strings.HasPrefix(h.problems[i], want) {
			t.Errorf("problem %d: want %q in %q", i, want, h.problems)
		}
	}
	if got := h.texts(); got["z.md"] != "fine" || got["c.txt"] != "U" {
		t.Errorf("z.md, or c.txt in UTF-16, was not read: %v", got)
	}
	if diff := cmp.Diff(map[string]int{SkipSpecial: 1}, h.skipped); diff != "" {
		t.Error(diff)
	}
}

func TestAFileNameThatIsNotUTF8(t *testing.T) {
	dir := folder(t, map[string]string{"caf\xe9.md": "x", "café.md": "y"})
	h := readPaths(t, dir, nil, dir)
	if diff := cmp.Diff(map[string]string{"café.md": "y"}, h.texts()); diff != "" {
		t.Error(diff)
	}
	if len(h.problems) != 1 || !strings.Contains(h.problems[0], "its name is not UTF-8") {
		t.Errorf("problems: %q", h.problems)
	}
}

func TestNamedFiles(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "a", ".b.md": "hidden but named", "c.bin": "x", "LICENSE": "x", "tool": "#!/bin/sh\n"})
	at := func(name string) string { return filepath.Join(dir, name) }
	h := readPaths(t, dir, nil, at("a.md"), at(".b.md"), at("c.bin"), at("tool"), dir)
	if diff := cmp.Diff(map[string]string{"a.md": "a", ".b.md": "hidden but named", "LICENSE": "x"}, h.texts()); diff != "" {
		t.Error(diff)
	}
	if len(h.problems) != 2 || !strings.Contains(h.problems[0], "files of type .bin; --as names one (markdown, text") || !strings.Contains(h.problems[1], "without an extension") {
		t.Errorf("problems: %q", h.problems)
	}
	if diff := cmp.Diff(map[string]int{SkipRepeated: 1, SkipExtension: 2}, h.skipped); diff != "" {
		t.Error(diff)
	}

	err := Read(context.Background(), []string{at("a.md"), at("gone.md")}, Options{Problem: func(Problem) {}}, func(Document) error {
		t.Error("a document was read before the paths were checked")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "there is no file or folder "+at("gone.md")) {
		t.Errorf("a path that doesn't exist: %v", err)
	}
}

func TestReadRows(t *testing.T) {
	long := strings.Repeat("long ", 1<<19) // 2.6 MB in one line
	input := "\xef\xbb\xbf" + `{"id":"a","text":"first"}` + "\r\n\n  \n" +
		`{"id":"b","text":"` + long + `"}` + "\n" +
		`{"id":"a","text":"again"}` + "\n" +
		`{"id":"c"}` + "\n" +
		`{"id":"d","text":"last, without a line break"}`
	h := readPaths(t, "", strings.NewReader(input), "-")
	type row struct {
		ID           string
		Line, Number int
	}
	var got []row
	for _, d := range h.docs {
		got = append(got, row{d.Row.ID, d.Line, d.Row.Number})
	}
	if diff := cmp.Diff([]row{{"a", 1, 0}, {"b", 4, 1}, {"d", 7, 4}}, got); diff != "" {
		t.Error(diff)
	}
	if h.docs[1].Text != long {
		t.Error("the long line was changed")
	}
	if diff := cmp.Diff([]string{`-:5: id "a" stands already in - line 1`, "-:6: the row has no text: one of the keys text, page_content, content, body, chunk must hold it"}, h.problems); diff != "" {
		t.Error(diff)
	}
}

func TestCountRows(t *testing.T) {
	rows := `{"id":"a","text":"x"}` + "\n\nbroken\n" + `{"id":"b","text":"y"}`
	dir := folder(t, map[string]string{"a.jsonl": rows, "b.ndjson.gz": gzipped(rows), "c.jsonl.zst": zstded(rows + "\n"), "d.md": "no rows"})
	n, err := CountRows(context.Background(), []string{dir}, Options{})
	if err != nil || n != 9 {
		t.Errorf("CountRows = %d, %v, want 9", n, err)
	}
	n, err = CountRows(context.Background(), []string{"-"}, Options{Stdin: strings.NewReader(rows)})
	if err != nil || n != 3 {
		t.Errorf("CountRows of standard input = %d, %v, want 3", n, err)
	}
}

func TestReadStops(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "a", "b.md": "b"})
	stop := errors.New("enough")
	n := 0
	err := Read(context.Background(), []string{dir}, Options{Problem: func(Problem) {}}, func(Document) error { n++; return stop })
	if err != stop || n != 1 {
		t.Errorf("after an error of yield: %v, %d documents", err, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = Read(ctx, []string{dir}, Options{Problem: func(Problem) {}}, func(Document) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

func TestHTML(t *testing.T) {
	for name, test := range map[string]struct{ page, want string }{
		"page": {
			`<!DOCTYPE html><html><head><title>The  Title</title><style>p{}</style><script>x()</script></head>
<body><nav><a href="/">Home</a></nav><h1>Head</h1><p>One &lt;two&gt; &eacute;
 <b>bold</b>text.</p><p hidden>secret</p><p>Three<br>four</p><script>y()</script><!-- no --></body></html>`,
			"The Title\n\nHead\n\nOne <two> é boldtext.\n\nThree\nfour",
		},
		"lists":  {`<ul><li>a<li>b <i>c</i><ul><li>d</ul><li></ul><ol><li>e<li>f</ol>`, "- a\n- b c\n\n  - d\n\n1. e\n2. f"},
		"table":  {`<table><tr><th>A<th>B<tr><td>1<td>2 <br> 3</table>after`, "| A | B |\n| 1 | 2 3 |\n\nafter"},
		"code":   {"<pre>  if x:\n    y\n</pre>z", "if x:\n    y\n\n\nz"},
		"bare":   {"just &#65; text", "just A text"},
		"empty":  {"", ""},
		"blocks": {"<div>a<div>b</div></div><div>c</div>", "a\n\nb\n\nc"},
		"latin1": {"<meta charset=iso-8859-1><p>caf\xe9</p>", "café"},
		"utf8":   {"<meta charset=utf-8><p>café 中文</p>", "café 中文"},
		"gb":     {"<meta charset=gb2312><p>\xd6\xd0\xce\xc4</p>", "中文"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readHTML([]byte(test.page))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzHTML(f *testing.F) {
	f.Add([]byte("<title>x</title><ul><li>a<table><tr><td>b</pre>"))
	f.Fuzz(func(t *testing.T, page []byte) {
		text, err := readHTML(page)
		if err == nil && strings.ContainsRune(text, 0) {
			t.Errorf("%q gave %q", page, text)
		}
	})
}
