package readers

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// notebook is what is read of a Jupyter notebook, of format 3 or 4.
type notebook struct {
	Cells      []cell `json:"cells"`
	Worksheets []struct {
		Cells []cell `json:"cells"`
	} `json:"worksheets"`
	Metadata struct {
		Kernel struct {
			Language string `json:"language"`
		} `json:"kernelspec"`
	} `json:"metadata"`
}

type cell struct {
	Type    string   `json:"cell_type"`
	Level   int      `json:"level"` // of a heading, format 3
	Source  manyText `json:"source"`
	Input   manyText `json:"input"` // format 3
	Outputs []struct {
		Text manyText                   `json:"text"`
		Data map[string]json.RawMessage `json:"data"`
	} `json:"outputs"`
}

// manyText is a text, or its lines.
type manyText string

func (m *manyText) UnmarshalJSON(data []byte) error {
	var lines []string
	if err := json.Unmarshal(data, &lines); err == nil {
		*m = manyText(strings.Join(lines, ""))
		return nil
	}
	return json.Unmarshal(data, (*string)(m))
}

// longestOutput bounds what is taken of what a cell printed: logs of thousands of lines say nothing.
const longestOutput = 2000

// readNotebook takes the prose, the code, and the text that code printed; pictures are left out but for what stands for them.
func readNotebook(_ context.Context, data []byte, t Tools) (Result, error) {
	text, _, err := Decode(data, "")
	if err != nil {
		return Result{}, err
	}
	var n notebook
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return Result{}, fmt.Errorf("it is no notebook: %w", err)
	}
	cells := n.Cells
	for _, w := range n.Worksheets {
		cells = append(cells, w.Cells...)
	}
	var blocks []string
	add := func(block string) {
		if block = strings.TrimSpace(block); block != "" {
			blocks = append(blocks, block)
		}
	}
	for _, c := range cells {
		source := string(c.Source) + string(c.Input)
		switch c.Type {
		case "markdown", "raw":
			add(Markdown(source))
		case "heading":
			add(strings.Repeat("#", max(1, min(c.Level, 6))) + " " + source)
		case "code":
			if strings.TrimSpace(source) != "" {
				add("```" + n.Metadata.Kernel.Language + "\n" + strings.TrimRight(source, "\n") + "\n```")
			}
			for _, out := range c.Outputs {
				add(printed(string(out.Text)))
				var plain manyText
				if json.Unmarshal(out.Data["text/markdown"], &plain) != nil {
					_ = json.Unmarshal(out.Data["text/plain"], &plain) // an output of another kind says nothing
				}
				add(printed(string(plain)))
			}
		}
	}
	return one(strings.Join(blocks, "\n\n"))
}

// object is what Python prints for what has no text of its own, such as a picture.
var object = regexp.MustCompile(`^<[A-Za-z_][\w.]*( [^>]*)?>$`)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

func printed(text string) string {
	text = strings.TrimSpace(escapes.ReplaceAllString(text, ""))
	if object.MatchString(text) {
		return ""
	}
	if len(text) > longestOutput {
		text = strings.ToValidUTF8(text[:longestOutput], "") + " …"
	}
	return text
}
