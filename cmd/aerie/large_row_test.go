package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestC20LargeRows: a ready-made row far over the cap of a cluster is summarized in parts, by itself, and the tree above the others is
// what it would be.
func TestC20LargeRows(t *testing.T) {
	fresh(t)
	var rows strings.Builder
	row := func(id string, sentences int) {
		fmt.Fprintf(&rows, `{"id":%q,"text":"`, id)
		for i := range sentences {
			fmt.Fprintf(&rows, "In year %d of %s the owl was seen %d times over the wet meadows. ", i, id, i*7%13)
		}
		rows.WriteString("\"}\n")
	}
	for i := range 40 {
		row(fmt.Sprintf("r%d", i), 5)
	}
	row("large", 9000)
	row("medium", 400)
	aerieStdin(t, rows.String(), "ingest", "-").want(t, exitDone)
	r := aerie(t, "build", "-o", "json").want(t, exitDone)
	built := decode[struct {
		Outcome string `json:"outcome"`
		Stopped string `json:"stopped_because"`
		Levels  []struct {
			Out int `json:"nodes_out"`
		} `json:"levels"`
	}](t, r)
	if built.Outcome != "built" || len(built.Levels) == 0 || strings.Contains(built.Stopped, "would not shrink") {
		t.Fatalf("%+v", built)
	}
	tokens := map[string]int{}
	for line := range strings.Lines(aerie(t, "tree", "-o", "jsonl").want(t, exitDone).stdout) {
		var node struct {
			ID       string   `json:"id"`
			Level    int      `json:"level"`
			Tokens   int      `json:"tokens"`
			Children []string `json:"child_ids"`
		}
		if err := json.Unmarshal([]byte(line), &node); err != nil {
			t.Fatal(err)
		}
		tokens[node.ID] = node.Tokens
		sum := 0
		for _, child := range node.Children {
			sum += tokens[child]
		}
		if sum > 3500 && len(node.Children) > 1 {
			t.Errorf("a cluster of %d nodes has %d tokens", len(node.Children), sum)
		}
		if node.Level > 0 && node.Tokens > 1000 {
			t.Errorf("a summary of %d tokens", node.Tokens)
		}
	}
}
