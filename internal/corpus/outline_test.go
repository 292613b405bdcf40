package corpus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contextsOf are the contexts of a text's chunks, by the first word that each begins with in capitals.
func contextsOf(text string, tokens int) map[string]string {
	out := map[string]string{}
	for _, c := range Split(text, tokens, NewCounter()) {
		for word := range strings.FieldsSeq(c.Text) {
			if word == strings.ToUpper(word) && strings.ContainsAny(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				out[word] = c.Context
				break
			}
		}
	}
	return out
}

// TestC15Headings: each piece of a text knows the headings that it stands under, in Markdown and in reStructuredText.
func TestC15Headings(t *testing.T) {
	filler := strings.Repeat(" and so it goes on for a while", 4) + "."
	markdown := "# The *Guide* {#top}\n\nALPHA begins" + filler + "\n\n## `Install`\n\n### Windows\n\nBETA one" + filler + "\n\nGAMMA two" + filler +
		"\n\n### Linux ###\n\nDELTA one" + filler + "\n\nEPSILON two" + filler + "\n\n## Use\n\nZETA one" + filler + "\n\nETA two" + filler
	if diff := cmp.Diff(map[string]string{
		"ALPHA": "", "BETA": "The *Guide*", "GAMMA": "The *Guide* › Install › Windows", "DELTA": "The *Guide* › Install",
		"EPSILON": "The *Guide* › Install › Linux", "ZETA": "The *Guide*", "ETA": "The *Guide* › Use",
	}, contextsOf(markdown, 60)); diff != "" {
		t.Errorf("markdown (-want +got):\n%s", diff)
	}
	rst := "=====\nGuide\n=====\n\nInstall\n=======\n\nALPHA" + filler + "\n\nBETA" + filler + "\n\nLinux\n-----\n\nGAMMA" + filler + "\n\nDELTA" + filler + "\n\nUse\n===\n\nEPSILON" + filler + "\n\nZETA" + filler
	if diff := cmp.Diff(map[string]string{
		"ALPHA": "", "BETA": "Guide › Install", "GAMMA": "Guide › Install", "DELTA": "Guide › Install › Linux", "EPSILON": "Guide", "ZETA": "Guide › Use",
	}, contextsOf(rst, 60)); diff != "" {
		t.Errorf("reStructuredText (-want +got):\n%s", diff)
	}
}

// TestC15TableHead: the second half of a long table knows its columns.
func TestC15TableHead(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Prices\n\n| fruit | price in EUR |\n|---|---|\n")
	for i := range 60 {
		fmt.Fprintf(&b, "| fruit number %d | %d.50 |\n", i, i)
	}
	b.WriteString("\nAfter the table there is nothing more to say about prices, and this is the last sentence of it all.\n")
	chunks := Split(b.String(), 60, NewCounter())
	if len(chunks) < 5 || chunks[0].Context != "" {
		t.Fatalf("%d chunks, the first under %q", len(chunks), chunks[0].Context)
	}
	for i, c := range chunks[1 : len(chunks)-1] {
		if c.Context != "Prices › fruit | price in EUR" {
			t.Errorf("chunk %d under %q", i+1, c.Context)
		}
	}
	if last := chunks[len(chunks)-1]; strings.Contains(last.Text, "|") != (last.Context == "Prices › fruit | price in EUR") {
		t.Errorf("the last: %q under %q", last.Text, last.Context)
	}
}

// TestC15ContextIsBounded: at most 40 tokens, the innermost headings first, in parts of a large text too.
func TestC15ContextIsBounded(t *testing.T) {
	long := strings.Repeat("a heading of very many words ", 30)
	text := "# Outer\n\n## " + long + "\n\n### Inner\n\n" + strings.Repeat("A sentence that stands here again and again. ", 30_000)
	counter := NewCounter()
	chunks := Split(text, 100, counter)
	for _, c := range chunks[len(chunks)/2:] {
		if counter.Count(c.Context) > contextTokens || !strings.HasSuffix(c.Context, "Inner") {
			t.Fatalf("at %d of %d: %q", c.Start, len(text), c.Context)
		}
	}
	alone := Split("# "+long+"\n\n"+strings.Repeat("A sentence that stands here again and again. ", 100), 100, counter)
	if n := counter.Count(alone[2].Context); n == 0 || n > contextTokens {
		t.Errorf("a heading too long: %q, %d tokens", alone[2].Context, n)
	}
}
