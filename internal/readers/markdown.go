package readers

import (
	"context"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

func readMarkdown(_ context.Context, data []byte, t Tools) (Result, error) {
	text, line, err := Decode(data, t.Encoding)
	if err != nil {
		return Result{}, atLine(line, err)
	}
	body, metadata := frontMatter(text)
	body = Markdown(body)
	return Result{Parts: []Part{{Text: body, Metadata: metadata}}}, nil
}

// LineError is an error at a line of a file.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return e.Err.Error() }
func (e *LineError) Unwrap() error { return e.Err }

func atLine(line int, err error) error {
	if line == 0 {
		return err
	}
	return &LineError{line, err}
}

// embedded is a picture whose bytes stand in the text.
var embedded = regexp.MustCompile(`!\[([^\]]*)\]\(\s*<?data:[^)\s>]*>?(?:\s+"[^"]*")?\s*\)`)

// Markdown returns a text without what a reader doesn't see of it: comments, and pictures as bytes, of which the alternative text
// stays. Code is left as it is.
func Markdown(text string) string {
	if !strings.Contains(text, "<!--") && !strings.Contains(text, "data:") {
		return text
	}
	var b strings.Builder
	fence := ""
	comment := false
	for line := range strings.SplitAfterSeq(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if fence != "" {
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			b.WriteString(line)
			continue
		}
		if !comment && len(line)-len(trimmed) < 4 {
			for _, mark := range []string{"```", "~~~"} {
				if strings.HasPrefix(trimmed, mark) {
					fence = mark
				}
			}
			if fence != "" {
				b.WriteString(line)
				continue
			}
		}
		b.WriteString(uncomment(line, &comment))
	}
	return embedded.ReplaceAllString(b.String(), "$1")
}

// uncomment takes comments out of a line; inside says whether it begins within one, and whether the next does. Comments in code spans
// are code.
func uncomment(line string, inside *bool) string {
	var b strings.Builder
	for {
		if *inside {
			_, after, ok := strings.Cut(line, "-->")
			if !ok {
				if b.Len() > 0 {
					b.WriteByte('\n')
				}
				return b.String()
			}
			*inside, line = false, after
		}
		before, after, ok := strings.Cut(line, "<!--")
		if !ok || strings.Count(before, "`")%2 == 1 {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(before)
		*inside, line = true, after
	}
}

// frontMatter parts a text from what stands about it between two lines of --- at its beginning.
func frontMatter(text string) (body string, metadata map[string]any) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		if rest, ok = strings.CutPrefix(text, "---\r\n"); !ok {
			return text, nil
		}
	}
	end := frontEnd.FindStringIndex(rest)
	if end == nil {
		return text, nil
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(rest[:end[0]]), &fields); err != nil || len(fields) == 0 {
		return text, nil // a rule and something else
	}
	return rest[end[1]:], Flat(fields)
}

var frontEnd = regexp.MustCompile(`(?m)^(?:---|\.\.\.)[ \t]*\r?(?:\n|\z)`)

// Flat returns values by dotted key, as metadata has them: what nests is named by its way down, and what is neither a text, a number,
// a truth nor a list of one of these is left out.
func Flat(fields map[string]any) map[string]any {
	out := map[string]any{}
	flatten(out, "", fields, 0)
	if len(out) == 0 {
		return nil
	}
	return out
}

// deepestFields is how far values may nest.
const deepestFields = 8

func flatten(out map[string]any, prefix string, fields map[string]any, depth int) {
	for key, value := range fields {
		switch v := value.(type) {
		case map[string]any:
			if depth < deepestFields {
				flatten(out, prefix+key+".", v, depth+1)
			}
		case string:
			if !strings.ContainsRune(v, 0) {
				out[prefix+key] = v
			}
		case bool, float64, int64:
			out[prefix+key] = v
		case int:
			out[prefix+key] = int64(v)
		case time.Time:
			out[prefix+key] = strings.TrimSuffix(v.Format("2006-01-02 15:04:05"), " 00:00:00")
		case []any:
			if list := listOf(v); list != nil {
				out[prefix+key] = list
			}
		}
	}
}

func listOf(values []any) any {
	var texts []string
	var numbers []float64
	for _, v := range values {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case int:
			numbers = append(numbers, float64(v))
		case float64:
			numbers = append(numbers, v)
		}
	}
	switch len(values) {
	case 0:
		return nil
	case len(texts):
		return texts
	case len(numbers):
		return numbers
	}
	return nil
}
