package readers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readJSON reads an array of objects, or several objects one after the other, as rows if they hold a text; any other value is text by
// its keys.
func readJSON(ctx context.Context, data []byte, t Tools) (Result, error) {
	text, line, err := Decode(data, t.Encoding)
	if err != nil {
		return Result{}, atLine(line, err)
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var out Result
	var values []json.RawMessage
	for {
		var v json.RawMessage
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, fmt.Errorf("it is no JSON: %w", err)
		}
		values = append(values, v)
	}
	if len(values) == 1 && bytes.HasPrefix(values[0], []byte("[")) {
		array := values[0]
		values = nil
		if err := json.Unmarshal(array, &values); err != nil {
			return Result{}, fmt.Errorf("it is no JSON: %w", err)
		}
	}
	for _, v := range values {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if !isRow(v) {
			return asText(values)
		}
		var flat bytes.Buffer
		if err := json.Compact(&flat, v); err != nil {
			return Result{}, fmt.Errorf("it is no JSON: %w", err)
		}
		out.Lines = append(out.Lines, flat.Bytes())
	}
	if len(out.Lines) == 0 {
		return Result{}, errNoText
	}
	return out, nil
}

// TextKeys are what rows call their text, the first that is there; those after the first are what LangChain, Haystack and others write.
var TextKeys = []string{"text", "page_content", "content", "body", "chunk"}

// isRow reports whether a value is an object with a text.
func isRow(v json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(v, &fields) != nil {
		return false
	}
	for _, key := range TextKeys {
		if bytes.HasPrefix(fields[key], []byte(`"`)) {
			return true
		}
	}
	return bytes.HasPrefix(fields["text_resource"], []byte("{"))
}

// asText writes values by their keys.
func asText(values []json.RawMessage) (Result, error) {
	var b strings.Builder
	for _, raw := range values {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := writeValue(&b, dec, "", 0); err != nil {
			return Result{}, fmt.Errorf("it is no JSON: %w", err)
		}
		b.WriteString("\n")
	}
	return one(b.String())
}

// deepestJSON is how far values may nest.
const deepestJSON = 200

// writeValue writes the next value of a decoder as lines "key: value", in the order in which they stand; what nests is indented.
func writeValue(b *strings.Builder, dec *json.Decoder, label string, depth int) error {
	if depth > deepestJSON {
		return fmt.Errorf("it nests deeper than %d levels", deepestJSON)
	}
	token, err := dec.Token()
	if err != nil {
		return err
	}
	indent := strings.Repeat("  ", min(max(depth-1, 0), 10))
	delim, nested := token.(json.Delim)
	if !nested {
		if text := strings.ReplaceAll(fmt.Sprint(token), "\x00", ""); token != nil && text != "" {
			b.WriteString(indent + label + text + "\n")
		}
		return nil
	}
	if label != "" {
		b.WriteString(indent + strings.TrimSuffix(label, " ") + "\n")
	}
	for dec.More() {
		key := "- "
		if delim == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			key = strings.ReplaceAll(fmt.Sprint(name), "\x00", "") + ": "
		}
		if err := writeValue(b, dec, key, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}
