package corpus

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/tree"
)

// readWith reads a folder with settings.
func readWith(t *testing.T, dir string, reading Reading, paths ...string) (docs []Document, problems []Problem, skipped map[string]string) {
	t.Helper()
	skipped = map[string]string{}
	opts := Options{
		Base: dir, Reading: reading, Problem: func(p Problem) { problems = append(problems, p) },
		Skip: func(source, reason string) {
			rel, err := filepath.Rel(dir, source)
			if err != nil {
				t.Fatal(err)
			}
			skipped[filepath.ToSlash(rel)] = reason
		},
	}
	if err := Read(t.Context(), paths, opts, func(d Document) error { docs = append(docs, d); return nil }); err != nil {
		t.Fatal(err)
	}
	return docs, problems, skipped
}

func textsOf(docs []Document) map[string]string {
	all := map[string]string{}
	for _, d := range docs {
		all[d.ID] = d.Text
	}
	return all
}

// TestC17WhatIsTaken: ignore files are obeyed, patterns of the caller's come before them, a file without an extension is what it holds,
// and a text of another encoding is read if that is told.
func TestC17WhatIsTaken(t *testing.T) {
	files := map[string]string{
		".git/HEAD": "ref", ".gitignore": "*.log.md\n/site/docs/build/\n!keep.log.md\n",
		"site/docs/a.md": "A", "site/docs/x.log.md": "log", "site/docs/keep.log.md": "kept", "site/docs/build/out.md": "made",
		"site/docs/.aerieignore": "drafts/\n", "site/docs/drafts/d.md": "draft", "site/docs/drafts/sub/e.md": "draft",
		"site/docs/node_modules/p/readme.md": "of a package", "site/docs/LICENSE": "You may.", "site/docs/run": "#!/bin/sh\necho no\n",
		"site/docs/data.bin": "\x00\x01", "site/docs/odd.cfgx": "key = value",
	}
	dir := folder(t, files)
	root := filepath.Join(dir, "site", "docs")
	docs, problems, skipped := readWith(t, dir, Reading{}, root)
	if diff := cmp.Diff(map[string]string{"site/docs/a.md": "A", "site/docs/keep.log.md": "kept", "site/docs/LICENSE": "You may."}, textsOf(docs)); diff != "" || len(problems) > 0 {
		t.Errorf("%v\n%s", problems, diff)
	}
	want := map[string]string{
		"site/docs/x.log.md": SkipIgnored, "site/docs/build": SkipIgnored, "site/docs/drafts": SkipIgnored, "site/docs/node_modules": SkipPackages,
		"site/docs/run": SkipExtension, "site/docs/data.bin": SkipExtension, "site/docs/odd.cfgx": SkipExtension,
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Error(diff)
	}

	docs, _, skipped = readWith(t, dir, Reading{Include: []string{"*.cfgx", "drafts/**"}, Exclude: []string{"LICENSE"}}, root)
	got := textsOf(docs)
	if got["site/docs/odd.cfgx"] == "" || got["site/docs/drafts/d.md"] == "" || got["site/docs/drafts/sub/e.md"] == "" || got["site/docs/LICENSE"] != "" || skipped["site/docs/LICENSE"] != SkipExcluded {
		t.Errorf("with patterns: %v, skipped %v", got, skipped)
	}

	latin := folder(t, map[string]string{"a.txt": "M\xfcller", "b.md": "plain", "c.notes": "<p>Hm &amp; so</p>"})
	_, problems, _ = readWith(t, latin, Reading{}, latin)
	if len(problems) != 1 || !strings.Contains(problems[0].Error, "byte 1 is 0xfc") || !strings.Contains(problems[0].Error, "--encoding") {
		t.Errorf("%+v", problems)
	}
	docs, problems, _ = readWith(t, latin, Reading{Encoding: "windows-1252"}, latin)
	if got := textsOf(docs); got["a.txt"] != "Müller" || len(problems) > 0 {
		t.Errorf("%v %v", got, problems)
	}
	docs, _, _ = readWith(t, latin, Reading{As: "html"}, filepath.Join(latin, "c.notes"))
	if got := textsOf(docs); got["c.notes"] != "Hm & so" {
		t.Errorf("%v", got)
	}
	for _, bad := range []Reading{{As: "htm"}, {Encoding: "latin-one"}} {
		if err := bad.Check(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestC18OthersJSON: rows as LangChain, LlamaIndex and Haystack export them, an array of them, and UTF-16.
func TestC18OthersJSON(t *testing.T) {
	rows := strings.Join([]string{
		`{"page_content": "Of LangChain.", "metadata": {"source": "a.pdf", "page": 3, "loc": {"lines": {"from": 1}}, "tags": ["x", 1]}, "type": "Document"}`,
		`{"id_": "n1", "text": "Of LlamaIndex.", "metadata": {"file": "b.md"}, "ref_doc_id": "b", "relationships": {"1": {"node_id": "b"}}, "embedding": [1, 0]}`,
		`{"id_": "n2", "text_resource": {"text": "Of its newer form.", "mimetype": null}, "metadata": {}}`,
		`{"id": "h1", "content": "Of Haystack.", "meta": {"name": "c"}, "score": null, "dataframe": null}`,
		`{"page_content": "Of LangChain.", "metadata": {"source": "again"}}`,
	}, "\n") + "\n"
	wide := utf16.Encode([]rune("\ufeff" + rows))
	bytes := make([]byte, 0, 2*len(wide))
	for _, u := range wide {
		bytes = append(bytes, byte(u), byte(u>>8))
	}
	array := "[" + strings.ReplaceAll(strings.TrimSpace(rows), "\n", ",\n ") + "]"
	dir := folder(t, map[string]string{"rows.jsonl": rows, "wide.jsonl": string(bytes), "array.json": array})
	var first []Document
	for _, name := range []string{"rows.jsonl", "wide.jsonl", "array.json"} {
		docs, problems, _ := readWith(t, dir, Reading{}, filepath.Join(dir, name))
		if len(problems) > 0 || len(docs) != 5 {
			t.Fatalf("%s: %d rows, %+v", name, len(docs), problems)
		}
		langchain, llama, newer, haystack, again := docs[0], docs[1], docs[2], docs[3], docs[4]
		if langchain.ID != name || langchain.Text != "Of LangChain." || !strings.HasPrefix(langchain.Row.ID, name+"#") || langchain.Row.ID == again.Row.ID {
			t.Errorf("%s: %+v, %+v", name, langchain, again)
		}
		if diff := cmp.Diff(tree.Metadata{"source": "a.pdf", "page": 3.0, "loc.lines.from": 1.0, "type": "Document"}, langchain.Row.Metadata); diff != "" {
			t.Error(diff)
		}
		if llama.ID != "b" || llama.Row.ID != "n1" || llama.Text != "Of LlamaIndex." || len(llama.Row.Vector) != 2 || llama.Row.Metadata["file"] != "b.md" {
			t.Errorf("%s: %+v %+v", name, llama, llama.Row)
		}
		if newer.Text != "Of its newer form." || haystack.Text != "Of Haystack." || haystack.Row.Metadata["name"] != "c" {
			t.Errorf("%s: %+v, %+v", name, newer, haystack)
		}
		if first == nil {
			first = docs
		}
	}
	// A coordinator that reads the rows from a stream gives them the same names.
	var b strings.Builder
	p := NewPacker(&b)
	if err := Pieces(t.Context(), []string{filepath.Join(dir, "rows.jsonl")}, Options{Base: dir, Problem: p.Problem, Skip: p.Skip}, func(x Piece) error { return p.Piece(x, nil) }); err != nil {
		t.Fatal(err)
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	var there []string
	if err := ReadStream(t.Context(), strings.NewReader(b.String()), Options{Problem: func(p Problem) { t.Error(p) }}, func(d Document) error {
		there = append(there, d.ID+" "+d.Row.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, d := range first {
		if there[i] != d.ID+" "+d.Row.ID {
			t.Errorf("row %d is %s here and %s there", i, d.ID+" "+d.Row.ID, there[i])
		}
	}
}

// TestC19FrontMatter: what stands before a page about it is metadata, and comments are no text; both are left alone in code.
func TestC19FrontMatter(t *testing.T) {
	dir := folder(t, map[string]string{
		"a.md":  "---\ntitle: On owls\ndate: 2024-05-01\ntags: [birds, night]\ndraft: false\nauthor: {name: Ann}\nweight: 3\n---\n# Owls\n<!-- TODO: more -->They hunt.<!--\nhidden\n--> Yes.\n\n```html\n<!-- kept -->\n```\n\nUse `<!-- x -->` so.\n",
		"b.md":  "---\n\nA rule before a text.\n\n---\n\nAnd after it.\n",
		"c.txt": "---\ntitle: no\n---\n<!-- text -->\n",
	})
	docs, problems, _ := readWith(t, dir, Reading{}, dir)
	if len(problems) > 0 || len(docs) != 3 {
		t.Fatalf("%v %v", docs, problems)
	}
	want := tree.Metadata{"title": "On owls", "date": "2024-05-01", "tags": []string{"birds", "night"}, "draft": false, "author.name": "Ann", "weight": 3.0}
	if diff := cmp.Diff(want, docs[0].Metadata); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("# Owls\nThey hunt.\n Yes.\n\n```html\n<!-- kept -->\n```\n\nUse `<!-- x -->` so.\n", docs[0].Text); diff != "" {
		t.Error(diff)
	}
	if docs[1].Metadata != nil || !strings.Contains(docs[1].Text, "A rule before") || !strings.Contains(docs[2].Text, "<!-- text -->") {
		t.Errorf("%+v", docs[1:])
	}
}

// TestC14Pictures: a picture that stands in a text as bytes is its alternative text.
func TestC14Pictures(t *testing.T) {
	picture := "data:image/png;base64," + strings.Repeat("iVBORw0KGgo", 2000)
	nb, err := json.Marshal(map[string]any{"cells": []any{
		map[string]any{"cell_type": "markdown", "source": []string{"# Owls\n", "![a barn owl](" + picture + ")"}},
		map[string]any{"cell_type": "code", "source": "plot(owls)", "outputs": []any{
			map[string]any{"output_type": "display_data", "data": map[string]any{"image/png": strings.Repeat("iVBOR", 3000), "text/plain": "<Figure size 640x480 with 1 Axes>"}},
			map[string]any{"output_type": "stream", "text": []string{"42 owls\n"}},
		}},
	}, "metadata": map[string]any{"kernelspec": map[string]any{"language": "python"}}, "nbformat": 4})
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{
		"a.md": "Look: ![a barn owl](" + picture + " \"title\") there.", "b.ipynb": string(nb), "c.html": `<p>Look: <img alt="a barn owl" src="` + picture + `"> there.</p>`,
	})
	docs, problems, _ := readWith(t, dir, Reading{}, dir)
	if len(problems) > 0 || len(docs) != 3 {
		t.Fatalf("%d documents, %v", len(docs), problems)
	}
	for _, d := range docs {
		if strings.Contains(d.Text, "iVBOR") || !strings.Contains(d.Text, "a barn owl") || strings.Contains(d.Text, "Figure") {
			t.Errorf("%s: %.300q", d.ID, d.Text)
		}
	}
	if got := docs[1].Text; !strings.Contains(got, "```python\nplot(owls)\n```") || !strings.Contains(got, "42 owls") {
		t.Errorf("the notebook is %q", got)
	}
}

// TestCode: code is cut between declarations, and every line of it is there.
func TestCode(t *testing.T) {
	var b strings.Builder
	for i := range 12 {
		b.WriteString("// f" + string(rune('a'+i)) + " does one thing.\nfunc f" + string(rune('a'+i)) + "(x int) int {\n\ty := x\n\n\treturn y + 1\n}\n\n")
	}
	b.WriteString("var long = []int{\n" + strings.Repeat("\t1, 2, 3, 4, 5, 6, 7, 8,\n", 60) + "}\n")
	text := b.String()
	chunks := SplitCode(text, 60, NewCounter())
	var all strings.Builder
	for i, c := range chunks {
		if c.Tokens > 60 || c.Text != text[c.Start:c.End] {
			t.Errorf("chunk %d has %d tokens", i, c.Tokens)
		}
		if i < 6 && !strings.HasPrefix(c.Text, "// f") {
			t.Errorf("chunk %d begins within a declaration: %q", i, c.Text)
		}
		all.WriteString(c.Text)
	}
	if strip(all.String()) != strip(text) {
		t.Error("something of the code is missing")
	}
}

func strip(text string) string { return strings.Join(strings.Fields(text), "") }

// TestReaderCommand: a command reads files of its extension; what goes wrong with it is said.
func TestReaderCommand(t *testing.T) {
	dir := folder(t, map[string]string{"a.wpd": "shout", "b.wpx": "x", "c.wpy": "x"})
	docs, problems, _ := readWith(t, dir, Reading{Commands: map[string]string{"wpd": "tr a-z A-Z", "wpx": "false", "wpy": "true"}}, dir)
	if got := textsOf(docs); got["a.wpd"] != "SHOUT" || len(got) != 1 {
		t.Errorf("%v", got)
	}
	if len(problems) != 2 || !strings.Contains(problems[0].Error, "false failed") || !strings.Contains(problems[1].Error, "true wrote no text") {
		t.Errorf("%+v", problems)
	}
}
