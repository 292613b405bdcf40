package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
)

// benchRows reads the leaves of all PEPs, a list for each document. AERIE_BENCH_DATA names the folder; make bench-growth sets it.
func benchRows(b *testing.B, dir string) (names []string, rows map[string][]byte) {
	b.Helper()
	f, err := os.Open(filepath.Join(dir, "peps.leaves.jsonl.gz"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	rows = map[string][]byte{}
	for lines := bufio.NewReader(z); ; {
		line, err := lines.ReadBytes('\n')
		var leaf struct {
			ID       string `json:"id"`
			Document string `json:"document_id"`
			Index    int    `json:"chunk_index"`
			Text     string `json:"text"`
		}
		if len(line) > 0 {
			if err := json.Unmarshal(line, &leaf); err != nil {
				b.Fatal(err)
			}
			if rows[leaf.Document] == nil {
				names = append(names, leaf.Document)
			}
			row, err := json.Marshal(leaf)
			if err != nil {
				b.Fatal(err)
			}
			rows[leaf.Document] = append(append(rows[leaf.Document], row...), '\n')
		}
		if err == io.EOF {
			return names, rows
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// benchHome is a home that commands are run in.
type benchHome struct {
	b    *testing.B
	home string
}

func (h benchHome) run(stdin []byte, into any, args ...string) {
	h.b.Helper()
	var out, said bytes.Buffer
	code := run(h.b.Context(), append(args, "--home", h.home, "-o", "json"), bytes.NewReader(stdin), &out, &said)
	if code != exitDone {
		h.b.Fatalf("aerie %v: exit %d: %s", args, code, said.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		h.b.Fatal(err)
	}
}

func (h benchHome) ingest(names []string, rows map[string][]byte) {
	h.b.Helper()
	var all []byte
	for _, name := range names {
		all = append(all, rows[name]...)
	}
	var report api.IngestReport
	h.run(all, &report, "ingest", "-")
}

func (h benchHome) build(args ...string) api.BuildReport {
	h.b.Helper()
	var report api.BuildReport
	h.run(nil, &report, append([]string{"build", "--force"}, args...)...)
	return report
}

// copy is another home with the same in it.
func (h benchHome) copy() benchHome {
	h.b.Helper()
	out := benchHome{h.b, h.b.TempDir()}
	if err := os.CopyFS(out.home, os.DirFS(h.home)); err != nil {
		h.b.Fatal(err)
	}
	return out
}

func paid(r api.BuildReport) int { return r.InputTokens + r.OutputTokens }

// benchEdits ingests 122 PEPs as files, and edits one: a paragraph more at a tenth of it, then a word.
func benchEdits(b *testing.B, peps string) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(peps, "*.rst"))
	if err != nil || len(files) < 122 {
		b.Fatalf("%d PEPs in %s: %v", len(files), peps, err)
	}
	h, folder := benchHome{b, b.TempDir()}, filepath.Join(b.TempDir(), "peps")
	if err := os.Mkdir(folder, 0o700); err != nil {
		b.Fatal(err)
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, path := range files[:122] {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		write(filepath.Base(path), text)
	}
	var report api.IngestReport
	h.run(nil, &report, "ingest", folder)
	full := paid(h.build())
	name := filepath.Base(files[60])
	text, err := os.ReadFile(files[60])
	if err != nil {
		b.Fatal(err)
	}
	at := len(text)/10 + bytes.Index(text[len(text)/10:], []byte("\n\n"))
	edited := slices.Concat(text[:at], []byte("\n\nThis paragraph was put in afterwards, and says little that is new to anybody who has read as far as here.\n"), text[at:])
	for _, step := range []struct {
		what string
		text []byte
	}{
		{"a paragraph at a tenth of a document", edited},
		{"one word of a document", bytes.Replace(edited, []byte("says little"), []byte("says nothing"), 1)},
	} {
		write(name, step.text)
		h.run(nil, &report, "ingest", folder)
		r := h.build()
		fmt.Printf("embedded: %-42s %6.1f %% %6d calls   %d leaves added, %d removed\n", step.what, 100*float64(paid(r))/float64(full), r.Calls,
			report.Leaves.Added, report.Leaves.Removed)
	}
}

// BenchmarkGrowthEmbedded: whole commands on a home, with the built-in models: what documents that come or go cost, as tokens of a
// build in full, and how long a plan of 1 % more takes over all PEPs.
func BenchmarkGrowthEmbedded(b *testing.B) {
	dir := os.Getenv("AERIE_BENCH_DATA")
	if err := os.Unsetenv("AERIE_BENCH_DATA"); err != nil { // the program refuses variables that it doesn't know
		b.Fatal(err)
	}
	names, rows := benchRows(b, dir)
	for b.Loop() {
		benchEdits(b, filepath.Join(dir, "..", "peps"))
		h := benchHome{b, b.TempDir()}
		h.ingest(names[:110], rows)
		h.build()
		h.ingest(names[110:122], rows)
		grown := h.build()
		whole := benchHome{b, b.TempDir()}
		whole.ingest(names[:122], rows)
		full := paid(whole.build())
		tell := func(what string, r api.BuildReport, limit string) {
			fmt.Printf("embedded: %-42s %6.1f %% %6d calls   %s\n", what, 100*float64(paid(r))/float64(full), r.Calls, limit)
		}
		tell("+10 % documents", grown, "<= 15 %")
		tell("nothing changed", h.build(), "0")
		r := rand.New(rand.NewPCG(3, 4))
		sum, most, calls := 0, 0, 0
		const choices = 12
		for range choices {
			one := h.copy()
			var report api.IngestReport
			one.run(nil, &report, "delete", names[r.IntN(122)])
			built := one.build()
			sum, most, calls = sum+paid(built), max(most, paid(built)), calls+built.Calls
		}
		fmt.Printf("embedded: %-42s %6.1f %% %6d calls   <= 6 %%, at most %.1f %%\n", "-1 % documents, mean of 12 choices",
			100*float64(sum)/choices/float64(full), calls/choices, 100*float64(most)/float64(full))

		all := benchHome{b, b.TempDir()}
		cut := len(names) - 7
		all.ingest(names[:cut], rows)
		all.build()
		all.ingest(names[cut:], rows)
		began := time.Now()
		var estimate api.Estimate
		all.run(nil, &estimate, "plan")
		fmt.Printf("embedded: %-42s %6.1f s, <= 5 s: %d calls, in full about %d\n", "plan of all PEPs, +1 %", time.Since(began).Seconds(), estimate.Calls, estimate.Full.Calls)
		built := all.build()
		fmt.Printf("embedded: %-42s %6d calls, %d foreseen; level 1: %d calls, %d foreseen; %d tokens in, %d foreseen\n", "built", built.Calls, estimate.Calls,
			built.Levels[0].Calls, estimate.Levels[0].Calls, built.InputTokens, estimate.InputTokens)
	}
}
