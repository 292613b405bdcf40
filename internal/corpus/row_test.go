package corpus

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/tree"
)

func TestRows(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want Document
	}{
		"least":         {`{"id":"a","text":"hello"}`, Document{ID: "a", Text: "hello", Row: &Row{ID: "a", Index: -1}}},
		"number as id":  {`{"id": 12, "text": "x"}`, Document{ID: "12", Text: "x", Row: &Row{ID: "12", Index: -1}}},
		"of a document": {`{"id":"a#1","document_id":"a","chunk_index":1,"text":"x","tokens":99}`, Document{ID: "a", Text: "x", Row: &Row{ID: "a#1", Index: 1}}},
		"nulls":         {`{"id":"a","document_id":null,"chunk_index":null,"embedding":null,"author":null,"text":"x"}`, Document{ID: "a", Text: "x", Row: &Row{ID: "a", Index: -1}}},
		"metadata": {
			`{"id":"a","text":"x","s":"v","n":1.5,"b":true,"ss":["p","q"],"ns":[1,2e1],"bs":[false],"none":[]}`,
			Document{ID: "a", Text: "x", Row: &Row{ID: "a", Index: -1, Metadata: map[string]any{
				"s": "v", "n": 1.5, "b": true, "ss": []string{"p", "q"}, "ns": []float64{1, 20}, "bs": []bool{false},
			}}},
		},
		"embedding": {`{"id":"a","text":"x","embedding":[0.5, -1, 2e-1]}`, Document{ID: "a", Text: "x", Row: &Row{ID: "a", Index: -1, Vector: []float32{0.5, -1, 0.2}}}},
		"escapes":   {`{"id":"a","text":"\"\\\/\b\f\n\r\té😀 \ud800"}`, Document{ID: "a", Text: "\"\\/\b\f\n\r\té😀 \ufffd", Row: &Row{ID: "a", Index: -1}}},
		"white":     {" \t{ \"id\" : \"a\" , \"text\" : \" \\n \" } \r", Document{ID: "a", Text: " \n ", Row: &Row{ID: "a", Index: -1}}},
	} {
		t.Run(name, func(t *testing.T) {
			var r rowReader
			got, _, err := r.parse([]byte(test.line))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each message must say what is wrong; failed is the document that now lacks something.
func TestBadRows(t *testing.T) {
	for _, test := range []struct{ line, says, failed string }{
		{`{"id":"a","text":"x"`, "broken JSON: it ends too early", ""},
		{`{"id":"a","text":"x"} x`, "broken JSON: unexpected 'x' at byte 23", ""},
		{`{"id":"a","text":x}`, "broken JSON: unexpected 'x' at byte 18", ""},
		{`{"id":"a","text":"x",}`, "broken JSON: unexpected '}' at byte 22", ""},
		{`{"id":"a","text":"x","n":01}`, "broken JSON", ""},
		{`{"id":"a","text":"x","n":1e999}`, "out of range", "a"},
		{`{"id":"a","text":"x","n":9223372036854775808}`, "fit into 64 bits", "a"},
		{`{"id":"a","text":"x","n":[-9223372036854775809]}`, "fit into 64 bits", "a"},
		{`{"id":"a","text":"x","n":[1.5,9007199254740993]}`, "write these as texts", "a"},
		{`{"id":"a","text":"a` + "\t" + `b"}`, "broken JSON", ""},
		{`{"id":"a","text":"\x"}`, "broken JSON", ""},
		{`["a"]`, "not a JSON object", ""},
		{`hello`, "not a JSON object", ""},
		{"{\"id\":\"a\",\"text\":\"\xff\"}", "invalid UTF-8 at byte 19 of the line", ""},
		{`{"id":null,"text":"x"}`, `"id" is neither`, ""},
		{`{"id":"","text":"x"}`, `"id" is empty`, ""},
		{`{"id":[1],"text":"x"}`, `"id" is neither a string nor a number`, ""},
		{`{"id":"a"}`, "no text", "a"},
		{`{"id":"a","text":null}`, `"text" is not a string`, "a"},
		{`{"id":"a","text":5}`, `"text" is not a string`, "a"},
		{`{"id":"a","text":"x\u0000y"}`, `"text" holds a NUL`, "a"},
		{`{"id":"a","id":"b","text":"x"}`, `"id" stands twice`, "b"},
		{`{"id":"a","text":"x","document_id":{}}`, `"document_id" is neither`, ""},
		{`{"id":"a","text":"x","document_id":"raptor://corpus-tree"}`, "reserved", "raptor://corpus-tree"},
		{`{"id":"raptor://corpus-tree","text":"x"}`, "reserved", "raptor://corpus-tree"},
		{`{"id":"a","text":"x","chunk_index":-1}`, `"chunk_index" is -1`, "a"},
		{`{"id":"a","text":"x","chunk_index":1.5}`, `"chunk_index" is 1.5`, "a"},
		{`{"id":"a","text":"x","chunk_index":"1"}`, `"chunk_index" is not a number`, "a"},
		{`{"id":"a","text":"x","tags":["y",1]}`, `"tags" holds a list of several kinds`, "a"},
		{`{"id":"a","text":"x","tags":[["y"]]}`, `"tags" holds a list of lists`, "a"},
		{`{"id":"a","text":"x","tags":["y",null]}`, `"tags" holds a list with null`, "a"},
		{`{"id":"a","text":"x","embedding":[1,NaN]}`, "holds NaN at index 1", "a"},
		{`{"id":"a","text":"x","embedding":[-Infinity]}`, "holds -Inf at index 0", "a"},
		{`{"id":"a","text":"x","embedding":[0,0,-0.0]}`, "all zero", "a"},
		{`{"id":"a","text":"x","embedding":[]}`, "empty array", "a"},
		{`{"id":"a","text":"x","embedding":"AAAA"}`, `"embedding" is not an array of numbers`, "a"},
		{`{"id":"a","text":"x","embedding":[1,"2"]}`, `"embedding" is not an array of numbers`, "a"},
		{`{"id":"a","text":"x","embedding":[1,null]}`, `"embedding" is not an array of numbers`, "a"},
		{`{"id":"a","text":"x","deep":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, "nests deeper", ""},
	} {
		var r rowReader
		_, failed, err := r.parse([]byte(test.line))
		switch {
		case err == nil:
			t.Errorf("%s: no error", test.line)
		case !strings.Contains(err.Error(), test.says):
			t.Errorf("%s: %q doesn't say %q", test.line, err, test.says)
		case failed != test.failed:
			t.Errorf("%s: document %q lacks something, want %q", test.line, failed, test.failed)
		}
	}
}

// TestA9AfterTheObject: whatever follows an object in its line is an error of that line, and nothing is lost in silence.
func TestA9AfterTheObject(t *testing.T) {
	const a, b = `{"id":"a","text":"One."}`, `{"id":"b","text":"Two."}`
	for _, between := range []string{"\x00", "\x00\x00", "", " ", "\t", ",", ";", "\r", "\x1e", "\x0b", "\x0c", "\x1a", "\u2028", "\u0085", "\u00a0", "\ufeff", "}", "]", "null", "\x00\r"} {
		for line, text := range map[string]string{"two rows": a + between + b, "a row and its rest": a + between} {
			if blank := strings.Trim(between, " \t\r") == ""; blank && line != "two rows" {
				continue // a row with white space after it
			}
			path := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(path, []byte(`{"id":"0","text":"Zero."}`+"\n"+text+"\n"+`{"id":"c","text":"Three."}`), 0o600); err != nil {
				t.Fatal(err)
			}
			var got read
			if err := Read(t.Context(), []string{path}, got.options(""), got.take); err != nil {
				t.Fatal(err)
			}
			if len(got.Documents) != 2 || len(got.Problems) != 1 || got.Problems[0].Line != 2 || !strings.Contains(got.Problems[0].Error, "at byte") {
				t.Errorf("%s with %q: %d documents, problems %+v", line, between, len(got.Documents), got.Problems)
			}
		}
	}
	// NUL, and what else is no JSON, in other places.
	for _, line := range []string{"\x00" + a, `{"id":"a",` + "\x00" + `"text":"One."}`, `{"id":"a","text":"On` + "\x00" + `e."}`, `{"id":"a","text":"One.","n":1` + "\x00" + `}`, `{"id":"a","text":"One.",}`, `{"id":"a" "text":"One."}`, `[` + a + `]` + b} {
		if _, _, err := new(rowReader).parse([]byte(line)); err == nil {
			t.Errorf("%q: no error", line)
		}
	}
	// The notes of a stream are held to the same.
	for _, line := range []string{
		`{"document":{"id":"a","text":"One."}}{"document":{"id":"b","text":"Two."}}`, `{"document":{"id":"a","text":"One."}}` + "\x00", `{"document":{"id":"a","text":"One."}} x`,
		`{"document":{"id":"a","text":"One."},"problem":{"source":"x","error":"y"}}`, `{"document":{"id":"a","text":"One."},"document":{"id":"b","text":"Two."}}`,
		`{"document":{"id":"a","text":"One.","text":"Two."}}`,
	} {
		var got read
		if err := ReadStream(t.Context(), strings.NewReader(line+"\n"), got.options(""), got.take); err != nil {
			t.Fatal(err)
		}
		if len(got.Documents) != 0 || len(got.Problems) != 1 || got.Problems[0].Line != 1 {
			t.Errorf("%s: %d documents, problems %+v", line, len(got.Documents), got.Problems)
		}
	}
}

// The scanner takes what encoding/json takes, with the same values, but for keys that stand twice.
func FuzzRow(f *testing.F) {
	for _, s := range []string{`{"id":"a","text":"hello","n":[1,2],"s":"é\n","e":1e5}`, `{"a":{"b":[1,{"c":null}]}}`, `{"embedding":[1,-2.5e3,0]}`, `{"a":"\ud83d\ude00\ud800x"}`, `{}`, `[`, `{"a":tru}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) {
			return
		}
		var want map[string]any
		wantErr := json.Unmarshal(data, &want)
		got := map[string]any{}
		twice := false
		s := jsonScanner{data: data}
		err := s.object(func(key string) error {
			_, twice2 := got[key]
			twice = twice || twice2
			var err error
			got[key], err = generic(&s, 0)
			return err
		})
		if err == nil {
			err = s.end()
		}
		if strings.TrimSpace(string(data)) == "null" {
			return // which encoding/json takes for an empty map
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json says %v", data, err, wantErr)
		}
		if err == nil && !twice {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q: %s", data, diff)
			}
		}
	})
}

// generic reads any value as encoding/json would.
func generic(s *jsonScanner, depth int) (any, error) {
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '[':
		list := []any{}
		err := s.array(func() error {
			v, err := generic(s, depth+1)
			list = append(list, v)
			return err
		})
		return list, err
	case c == '{':
		object := map[string]any{}
		err := s.object(func(key string) error {
			v, err := generic(s, depth+1)
			object[key] = v
			return err
		})
		return object, err
	case s.word("true"):
		return true, nil
	case s.word("false"):
		return false, nil
	case s.word("null"):
		return nil, nil
	}
	n, err := s.number()
	if err != nil {
		return nil, err
	}
	return tree.Number(n)
}

func TestUnit(t *testing.T) {
	v := []float32{3, 0, -4}
	if err := Unit(v); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{0.6, 0, -0.8}, v); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][]float32{nil, {0, 0}, {1, float32(math.NaN())}, {float32(math.Inf(1))}} {
		if err := Unit(bad); err == nil {
			t.Errorf("Unit(%v): no error", bad)
		}
	}
	// The squares of these are beyond float32's range.
	for _, x := range []float32{1e30, 1e-30} {
		v := []float32{x, 0}
		if err := Unit(v); err != nil || v[0] != 1 {
			t.Errorf("Unit of %g gives %v, %v", x, v, err)
		}
	}
}

func BenchmarkRow(b *testing.B) {
	vector := make([]string, 384)
	for i := range vector {
		vector[i] = fmt.Sprint(math.Sin(float64(i)) / 20)
	}
	line := []byte(`{"id":"medical#0","document_id":"medical","chunk_index":0,"text":"` + strings.Repeat("About basal cell skin cancer. ", 15) + `","embedding":[` + strings.Join(vector, ",") + `]}`)
	var r rowReader
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, _, err := r.parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
