package main

import (
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCP: an agent that starts the program finds its tools, at home and through a server, and the program ends with it.
func TestMCP(t *testing.T) {
	fixtures := fresh(t)
	url := serveHome(t)
	for _, at := range [][]string{nil, {"--server", url}} {
		aerie(t, append([]string{"ingest", fixtures}, at...)...).want(t, exitDone)
		aerie(t, append([]string{"build"}, at...)...).want(t, exitDone)
		cmd := exec.Command(program, append([]string{"mcp", "--allow-ask"}, at...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatalf("%v: %s", err, &stderr)
		}
		for tool, arguments := range map[string]map[string]any{
			"search": {"query": "what is a sequence"}, "ask": {"question": "what is a sequence"}, "outline": nil, "build_status": nil,
		} {
			result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil || result.IsError {
				t.Errorf("%s: %v, %+v", tool, err, result)
			}
		}
		result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: map[string]any{"query": "x", "corpus": "brids"}})
		if err != nil || !result.IsError || !strings.Contains(result.Content[0].(*sdk.TextContent).Text, `no corpus "brids"`) {
			t.Errorf("a mistyped corpus: %v, %+v", err, result)
		}
		if err := s.Close(); err != nil || cmd.ProcessState.ExitCode() != exitDone {
			t.Errorf("%v, %v: %s", err, cmd.ProcessState, &stderr)
		}
	}

	aerie(t, "mcp", "--home", "nowhere").want(t, exitFailed)
	aerie(t, "mcp", "x").want(t, exitUsage)
}
