// Command headings makes questions from a folder of reStructuredText whose answers stand in sections with a heading that their text
// doesn't repeat, to measure what the context of a leaf is worth. The same folder gives the same questions.
//
//	go run ./cmd/internal/headings FOLDER > questions.jsonl
//
// A section qualifies if it has 120 words or more, no word of its heading stands in them in any form (by its first five letters), and the
// heading names something: a word of it stands in at most 100 documents, unlike those of Abstract or Motivation.
// The evidence is a sentence of its second half, with 10 to 40 words. The question names the heading, and the two most common words of
// the sentence that between 20 and 300 documents have. Of each document one section is asked for, and of these the 100 whose names have the
// smallest SHA-256.
package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const wanted = 100

// section is one of a document.
type section struct {
	document, heading, body string
	order                   [32]byte
}

var (
	word      = regexp.MustCompile(`[a-z]{4,}`)
	underline = regexp.MustCompile(`(?m)^(\S[^\n]*)\n(=+|-+|~+|\^+|"+|'+)[ \t]*\n`)
	sentence  = regexp.MustCompile(`[A-Z][^.!?:|*]{40,300}\.(?:\s|$)`)
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "headings:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one folder of .rst files")
	}
	paths, err := filepath.Glob(filepath.Join(args[0], "*.rst"))
	if err != nil {
		return err
	}
	var all []section
	in := map[string]int{} // documents that have a word
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for w := range words(string(data)) {
			in[w]++
		}
		all = append(all, sections(filepath.Base(path), string(data))...)
	}
	slices.SortFunc(all, func(a, b section) int { return slices.Compare(a.order[:], b.order[:]) })
	asked := map[string]bool{}
	out := json.NewEncoder(os.Stdout)
	for _, s := range all {
		question, evidence, ok := ask(s, in)
		if !ok || !names(s, in) || asked[s.document] || len(asked) == wanted {
			continue
		}
		asked[s.document] = true
		err := out.Encode(map[string]any{"id": fmt.Sprintf("h%03d", len(asked)), "question": question, "answer": evidence, "evidence": []string{evidence}, "type": "heading"})
		if err != nil {
			return err
		}
	}
	if len(asked) < wanted {
		return fmt.Errorf("only %d documents have such a section", len(asked))
	}
	return nil
}

func words(text string) map[string]bool {
	all := map[string]bool{}
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		all[w] = true
	}
	return all
}

// sections are those of a document that qualify.
func sections(document, text string) []section {
	var all []section
	heads := underline.FindAllStringSubmatchIndex(text, -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		s := section{document: document, heading: strings.TrimSpace(text[h[2]:h[3]]), body: text[h[1]:end]}
		s.order = sha256.Sum256([]byte(document + "\n" + s.heading))
		if len(strings.Fields(s.body)) >= 120 && !repeats(s) {
			all = append(all, s)
		}
	}
	return all
}

// repeats reports whether a section's text has a word of its heading, or the heading none that could be looked for.
func repeats(s section) bool {
	body, head := words(s.body), words(s.heading)
	if len(head) == 0 {
		return true
	}
	for h := range head {
		for b := range body {
			if strings.HasPrefix(b, h[:min(5, len(h))]) {
				return true
			}
		}
	}
	return false
}

// names reports whether a heading has a word that few documents have.
func names(s section, in map[string]int) bool {
	for w := range words(s.heading) {
		if in[w] <= 100 {
			return true
		}
	}
	return false
}

// ask makes the question of a section.
func ask(s section, in map[string]int) (question, evidence string, ok bool) {
	for _, at := range sentence.FindAllStringIndex(s.body, -1) {
		text := strings.Join(strings.Fields(s.body[at[0]:at[1]]), " ")
		if n := len(strings.Fields(text)); at[0] < len(s.body)/2 || n < 10 || n > 40 {
			continue
		}
		var common []string
		for w := range words(text) {
			if in[w] >= 20 && in[w] <= 300 {
				common = append(common, w)
			}
		}
		slices.SortFunc(common, func(a, b string) int { return cmp.Or(cmp.Compare(in[b], in[a]), cmp.Compare(a, b)) })
		if len(common) >= 2 {
			return fmt.Sprintf("%s: what is said of %s and %s?", s.heading, common[0], common[1]), text, true
		}
	}
	return "", "", false
}
