// Readerbench compares what the readers make of real files with what other programs find in them: pdftotext for PDF, lynx for HTML. It
// prints one table by kind, and the files in which most is missing.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/aerie-rag/aerie/internal/corpus"
)

func main() {
	worst := flag.Int("worst", 10, "files of each kind that are listed")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: readerbench [--worst N] FOLDER…")
		os.Exit(2)
	}
	if err := run(context.Background(), flag.Args(), *worst); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kind is one kind of files with the program that they are compared by.
type kind struct {
	name    string
	command []string // the file's name follows
	files   []string
}

// found is what came of one file.
type found struct {
	path    string
	words   int     // of the other program
	share   float64 // of them that are there in the same order
	why     string  // it was left out; else ""
	seconds float64
}

func run(ctx context.Context, folders []string, worst int) error {
	kinds := []kind{
		{name: "PDF", command: []string{"pdftotext", "-enc", "UTF-8"}},
		{name: "HTML", command: []string{"lynx", "-dump", "-nolist", "-nonumbers", "-width=1000", "-display_charset=UTF-8", "-assume_charset=UTF-8", "-force_html"}},
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			switch strings.ToLower(filepath.Ext(path)) {
			case ".pdf":
				kinds[0].files = append(kinds[0].files, path)
			case ".html", ".htm", ".xhtml":
				kinds[1].files = append(kinds[1].files, path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Println("| kind | files | compared | both find no text | only the other program finds text | median | least | at 98 % or more | MB/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	var lists strings.Builder
	for _, k := range kinds {
		if len(k.files) == 0 {
			continue
		}
		if err := k.measure(ctx, worst, &lists); err != nil {
			return err
		}
	}
	fmt.Print(lists.String())
	return nil
}

// measure prints the row of one kind, and writes the files in which most is missing.
func (k kind) measure(ctx context.Context, worst int, lists *strings.Builder) error {
	var all []found
	var bytes, seconds float64
	silent, lost := 0, 0
	for _, path := range k.files {
		f, err := k.compare(ctx, path)
		if err != nil {
			return err
		}
		switch {
		case f.why != "" && f.words == 0:
			silent++
			continue
		case f.why != "":
			lost++
			fmt.Fprintf(lists, "\nleft out: %s, %d words: %s", path, f.words, f.why)
			continue
		case f.words == 0:
			silent++
			continue
		}
		if info, err := os.Stat(path); err == nil {
			bytes += float64(info.Size())
			seconds += f.seconds
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		fmt.Printf("| %s | %d | 0 | %d | %d | | | | |\n", k.name, len(k.files), silent, lost)
		return nil
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.share, b.share), cmp.Compare(a.path, b.path))
	})
	good := 0
	for _, f := range all {
		if f.share >= 0.98 {
			good++
		}
	}
	fmt.Printf("| %s | %d | %d | %d | %d | %.2f %% | %.2f %% | %d | %.1f |\n", k.name, len(k.files), len(all), silent, lost,
		100*all[len(all)/2].share, 100*all[0].share, good, bytes/1e6/max(seconds, 1e-9))
	fmt.Fprintf(lists, "\n%s, most is missing in:\n", k.name)
	for _, f := range all[:min(worst, len(all))] {
		fmt.Fprintf(lists, "  %6.2f %% of %d words: %s\n", 100*f.share, f.words, f.path)
	}
	return nil
}

// compare reads one file in both ways.
func (k kind) compare(ctx context.Context, path string) (found, error) {
	f := found{path: path}
	args := append(slices.Clone(k.command[1:]), path)
	if k.command[0] == "pdftotext" {
		args = append(args, "-")
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	other, err := exec.CommandContext(limited, k.command[0], args...).Output()
	if err != nil && limited.Err() == nil {
		if _, ran := errors.AsType[*exec.ExitError](err); !ran {
			return f, fmt.Errorf("%s: %w", k.command[0], err)
		}
		other = nil // it can't read the file either
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return f, err
	}
	var text strings.Builder
	opts := corpus.Options{Problem: func(p corpus.Problem) { f.why = p.Error }, Reading: corpus.Reading{Cache: filepath.Join(cache, "aerie")}}
	began := time.Now()
	err = corpus.Read(ctx, []string{path}, opts, func(d corpus.Document) error {
		text.WriteString(d.Text + "\n")
		return nil
	})
	f.seconds = time.Since(began).Seconds()
	if err != nil {
		return f, err
	}
	if text.Len() > 0 {
		f.why = ""
	}
	want, got := words(string(other)), words(text.String())
	f.words = len(want)
	if f.words > 0 {
		f.share = float64(common(want, got)) / float64(len(want))
	}
	return f, nil
}

// parted is a word that the end of a line parts.
var parted = regexp.MustCompile(`(\p{Ll})[-\x{ad}]\n\s*(\p{Ll})`)

// words are those of a text, folded, without what parts them.
func words(text string) []string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\f", "\n"), "\r", "")
	text = parted.ReplaceAllString(text, "$1$2")
	text = strings.ReplaceAll(strings.ToLower(norm.NFKC.String(text)), "\u00ad", "")
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) })
}

// mostApart bounds how different two texts may be that are compared in full.
const mostApart = 40_000

// common returns how many words of two texts are the same in the same order, by Myers' greedy algorithm (An O(ND) difference algorithm
// and its variations, 1986): n + m - d = 2·common. Texts that are further apart than mostApart have none.
func common(a, b []string) int {
	n, m := len(a), len(b)
	most := min(n+m, mostApart)
	reach := make([]int, 2*most+3) // by diagonal, the furthest word of a
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			at := k + most + 1
			x := reach[at-1] + 1
			if k == -d || k != d && reach[at-1] < reach[at+1] {
				x = reach[at+1]
			}
			for x < n && x-k < m && x-k >= 0 && a[x] == b[x-k] {
				x++
			}
			reach[at] = x
			if x >= n && x-k >= m {
				return (n + m - d) / 2
			}
		}
	}
	return 0
}
