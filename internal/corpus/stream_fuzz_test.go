package corpus

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzStream reads any bytes as the body of an ingest: documents that are texts, or problems, and every line is accounted for.
func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"source\":{\"name\":\"x\",\"line\":1}}\n{\"id\":\"a\",\"text\":\"One.\"}\n{\"end\":{}}\n"))
	f.Add([]byte("{\"document\":{\"id\":\"a\",\"text\":\"<p>One\",\"format\":\"html\"}}\n{\"vectors\":{\"of\":\"v\",\"width\":1}}\n{\"vector\":{\"values\":\"AACAPw==\"}}\n{\"id\":\"b\",\"text\":\"\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		problems, documents := 0, 0
		err := ReadStream(t.Context(), bytes.NewReader(body), Options{Problem: func(p Problem) { problems++ }}, func(d Document) error {
			documents++
			if d.ID == "" || !utf8.ValidString(d.Text) || strings.ContainsRune(d.Text, 0) {
				t.Errorf("%+v", d)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrBrokenOff) {
			t.Error(err)
		}
		if lines := bytes.Count(body, []byte("\n")) + 1; documents+problems > lines {
			t.Errorf("%d documents and %d problems in %d lines", documents, problems, lines)
		}
	})
}
