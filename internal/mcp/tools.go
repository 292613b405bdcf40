package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/tree"
)

// What a result may hold, in tokens.
const (
	defaultTokens = 2000
	mostTokens    = 8000
	// bytesPerToken is how many bytes of UTF-8 a token has at least in the texts of most languages: enough for a bound.
	bytesPerToken = 3
)

var (
	takesCorpus = argument{name: "corpus", doc: "name of the corpus; build_status lists them"}
	takesTokens = argument{name: "max_tokens", doc: "bound on the result, 2000 unless given", most: mostTokens}
)

// tools returns all of them.
func (s *Server) tools() []*tool {
	return []*tool{
		{
			name: "search", run: s.search,
			doc: "Find passages and summaries about a question or topic. Returns numbered texts with the ids that fetch takes.",
			takes: []argument{{name: "query", doc: "question or topic, in plain words", required: true}, takesCorpus, takesTokens,
				{name: "where", doc: "only passages with this metadata, such as: year>=2020; lang in en,de; isbn exists"}},
		},
		{
			name: "fetch", run: s.fetch,
			doc: "Read one passage or summary whole, with the ids of what is around it.",
			takes: []argument{
				{name: "id", doc: "id of a node, the beginning of one, or a cluster id", required: true}, takesCorpus, takesTokens,
				{name: "offset", doc: "where in the text to go on, from the result before", most: 1 << 40},
			},
		},
		{
			name: "outline", run: s.outline,
			doc:   "Show what a corpus, or one summary of it, is about: summaries from the top down.",
			takes: []argument{{name: "id", doc: "summary to start at; the top unless given"}, {name: "depth", doc: "levels to show, 2 unless given", most: 20}, takesCorpus, takesTokens},
		},
		{
			name: "build_status", run: s.status,
			doc:    "Tell which corpora there are, how large, and how their builds are.",
			takes:  []argument{takesCorpus},
			output: `{"type":"object","properties":{"corpora":{"type":"array","items":{"type":"object"}}},"required":["corpora"]}`,
		},
		{
			name: "ask", run: s.ask, spends: true,
			doc:   "Let a model answer a question from the corpus, with citations. Costs money: search first.",
			takes: []argument{{name: "question", doc: "the question", required: true}, takesCorpus},
		},
	}
}

// page collects a result of at most so many bytes.
type page struct {
	b    strings.Builder
	most int
}

func newPage(a arguments) *page {
	return &page{most: a.number("max_tokens", defaultTokens) * bytesPerToken}
}

// fits adds a text if there is room for it.
func (p *page) fits(format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	if p.b.Len()+len(text) > p.most {
		return false
	}
	p.b.WriteString(text)
	return true
}

// result is the page with a last line, which says what may be next, and links.
func (p *page) result(next string, links ...sdk.Content) *sdk.CallToolResult {
	text := printable.Text(p.b.String() + next)
	return &sdk.CallToolResult{Content: append([]sdk.Content{&sdk.TextContent{Text: text}}, links...)}
}

// link is that of a node.
func link(corpus, name string, id tree.ID) sdk.Content {
	return &sdk.ResourceLink{URI: address(corpus, id), Name: name, MIMEType: "text/plain"}
}

// nameOf says what a node is.
func nameOf(level, leaves int, documents []string, context string) string {
	from := "no document"
	switch n := len(documents); {
	case n > 1:
		from = fmt.Sprintf("%s and %d more documents", documents[0], n-1)
	case n == 1:
		from = documents[0]
	}
	if level == 0 {
		if context != "" {
			from += ", " + context
		}
		return "passage of " + from
	}
	return fmt.Sprintf("summary, level %d, of %d passages of %s", level, leaves, from)
}

func (s *Server) search(ctx context.Context, a arguments) (*sdk.CallToolResult, error) {
	q := api.Query{Query: a.texts["query"]}
	q.Budget = new(a.number("max_tokens", defaultTokens))
	var err error
	if q.Where, err = api.Conditions(a.texts["where"]); err != nil {
		return nil, err
	}
	corpus := a.texts["corpus"]
	found, err := s.service.Query(ctx, corpus, q)
	if err != nil {
		return nil, err
	}
	p := newPage(a)
	p.most *= 2 // the texts are counted exactly, and bounded by the budget already
	p.fits("%d of corpus %s:\n", len(found.Hits), corpus)
	var links []sdk.Content
	for i, h := range found.Hits {
		name := nameOf(h.Level, h.NSources, h.DocumentIDs, h.Context)
		if !p.fits("\n[%d] %s, id %s\n%s\n", i+1, name, h.ID, strings.TrimSpace(h.Text)) {
			break
		}
		links = append(links, link(corpus, fmt.Sprintf("[%d] %s", i+1, name), h.ID))
	}
	for _, note := range found.Notes {
		p.fits("\nNote: %s\n", note)
	}
	next := "\nNext: fetch with an id reads what is around it; search with other words or a larger max_tokens finds more."
	if len(found.Hits) == 0 {
		next = "\nNext: search with other words, or outline to see what the corpus is about."
	}
	return p.result(next, links...), nil
}

// mostAround is how many parents and children fetch names.
const mostAround = 20

func (s *Server) fetch(ctx context.Context, a arguments) (*sdk.CallToolResult, error) {
	corpus := a.texts["corpus"]
	n, err := s.service.Show(ctx, corpus, a.texts["id"])
	if err != nil {
		return nil, err
	}
	p := newPage(a)
	p.fits("%s, id %s", nameOf(n.Level, n.NLeaves, n.DocumentIDs, n.Context), n.ID)
	if n.ClusterID != "" {
		p.fits(", cluster %s", n.ClusterID)
	}
	p.fits("\n")
	for _, around := range []struct {
		what string
		ids  []tree.ID
	}{{"parents", n.ParentIDs}, {"children", n.ChildIDs}, {"passage before", idsOf(n.Previous)}, {"passage after", idsOf(n.Following)}} {
		if len(around.ids) > 0 {
			p.fits("%s: %s\n", around.what, list(around.ids))
		}
	}
	p.fits("\n")
	text, from := n.Text, min(a.number("offset", 0), len(n.Text))
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	to := min(len(text), from+max(bytesPerToken, p.most-p.b.Len()))
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	p.b.WriteString(text[from:to])
	next := "\n\nNext: fetch one of these ids, or search."
	if to < len(text) {
		next = fmt.Sprintf("\n\nNext: fetch with id %s and offset %d reads on; %d of %d bytes are left.", n.ID, to, len(text)-to, len(text))
	}
	return p.result(next, link(corpus, nameOf(n.Level, n.NLeaves, n.DocumentIDs, n.Context), n.ID)), nil
}

// idsOf is a list of one id, or of none.
func idsOf(id tree.ID) []tree.ID {
	if id.IsZero() {
		return nil
	}
	return []tree.ID{id}
}

func list(ids []tree.ID) string {
	var b strings.Builder
	for i, id := range ids[:min(mostAround, len(ids))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(id.String())
	}
	if len(ids) > mostAround {
		fmt.Fprintf(&b, " and %d more", len(ids)-mostAround)
	}
	return b.String()
}

func (s *Server) status(ctx context.Context, a arguments) (*sdk.CallToolResult, error) {
	status, err := s.service.Status(ctx, "")
	if err != nil {
		return nil, err
	}
	p := &page{most: mostTokens * bytesPerToken}
	for _, c := range status.Corpora {
		if err := s.cfg.May(ctx, c.Corpus); err != nil {
			continue
		}
		ok := p.fits("%s: %d documents, %d passages, %d summaries, generation %d; next build: %s\n", c.Corpus, c.Documents, c.Leaves, c.Summaries, c.Generation, c.NextBuild)
		if b := c.Build; ok && b != nil {
			p.fits("  build %s is %s %s\n", b.Build, b.State, b.Why)
			for _, l := range b.Levels {
				p.fits("  level %d: %d of %d done, %d buried\n", l.Level, l.Done, l.Expected, l.Buried)
			}
		}
	}
	result := p.result("Next: search or outline with a corpus.")
	body, err := json.Marshal(map[string]any{"corpora": status.Corpora})
	if err == nil && len(body) <= p.most {
		result.StructuredContent = json.RawMessage(body)
	} else {
		result.StructuredContent = map[string]any{"corpora": []any{}}
	}
	return result, err
}

func (s *Server) ask(ctx context.Context, a arguments) (*sdk.CallToolResult, error) {
	answer, err := s.service.Ask(ctx, a.texts["corpus"], api.Ask{Query: api.Query{Query: a.texts["question"]}}, nil)
	if err != nil {
		return nil, err
	}
	p := &page{most: mostTokens * bytesPerToken}
	p.fits("%s\n", answer.Text)
	var links []sdk.Content
	for _, c := range answer.Citations {
		p.fits("\n[%d] %s, id %s\n", c.N, strings.Join(c.DocumentIDs, ", "), c.ID)
		links = append(links, link(a.texts["corpus"], fmt.Sprintf("[%d]", c.N), c.ID))
	}
	return p.result("\nNext: fetch with the id of a source reads it.", links...), nil
}
