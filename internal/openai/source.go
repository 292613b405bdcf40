package openai

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/answer"
)

// source is a hit that an answer cites as [N].
type source struct {
	N     int
	Title string
	URL   string
	Text  string
}

// titleOf names a cited hit: its document, or for a summary what it is of.
func titleOf(c answer.Citation) string {
	switch {
	case c.Level > 0 && len(c.DocumentIDs) == 1:
		return "summary of " + c.DocumentIDs[0]
	case c.Level > 0:
		return fmt.Sprintf("summary of %d documents", len(c.DocumentIDs))
	case len(c.DocumentIDs) > 0:
		return named(c.DocumentIDs[0], c.Context)
	}
	return c.ID.String()
}

// named is a document with what a hit stands under in it.
func named(document, context string) string {
	if context == "" {
		return document
	}
	return document + ", " + context
}

// sourcesHead is the line that the list of sources begins with.
const sourcesHead = "\n\nSources:\n"

// listed is the list of sources at the end of an answer.
func listed(sources []source) string {
	if len(sources) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(sourcesHead)
	for _, s := range sources {
		fmt.Fprintf(&b, "\n[%d] [%s](%s)\n", s.N, escapeLink(s.Title), s.URL)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// escapeLink keeps what ends a link's text in Markdown out of it: documents are named by whoever brought them.
func escapeLink(title string) string {
	return strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, "\n", " ", "`", "'", "<", "‹", ">", "›").Replace(title)
}

// withoutSources takes the list of sources off an answer that comes back as an earlier turn.
func withoutSources(text string) string {
	before, _, _ := strings.Cut(text, sourcesHead)
	return before
}

// annotation says where an answer cites what.
type annotation struct {
	Type string      `json:"type"`
	URL  urlCitation `json:"url_citation"`
}

type urlCitation struct {
	StartIndex int    `json:"start_index"` // in characters
	EndIndex   int    `json:"end_index"`
	URL        string `json:"url"`
	Title      string `json:"title"`
}

var mark = regexp.MustCompile(`\[(\d{1,4})\]`)

// annotations finds the citations of a text that ends with the list of its sources.
func annotations(text string, sources []source) []annotation {
	of := map[int]source{}
	for _, s := range sources {
		of[s.N] = s
	}
	body := strings.TrimSuffix(text, listed(sources))
	var all []annotation
	for _, at := range mark.FindAllStringSubmatchIndex(body, -1) {
		n, err := strconv.Atoi(body[at[2]:at[3]])
		s, ok := of[n]
		if err != nil || !ok {
			continue
		}
		start := utf8.RuneCountInString(body[:at[0]])
		all = append(all, annotation{"url_citation", urlCitation{start, start + utf8.RuneCountInString(body[at[0]:at[1]]), s.URL, s.Title}})
	}
	return all
}

// event is a source as Open WebUI shows it.
func (s source) event() any {
	return map[string]any{"type": "source", "data": map[string]any{
		"source":   map[string]any{"id": s.URL, "name": s.Title, "url": s.URL},
		"document": []string{s.Text},
		"metadata": []map[string]any{{"source": s.URL, "name": s.Title}},
	}}
}
