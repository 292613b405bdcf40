package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// argument is one that a tool takes.
type argument struct {
	name, doc string
	required  bool
	// most is above 0 for a whole number from 1 to it; else the argument is a text.
	most int
}

// arguments are those of one call, checked.
type arguments struct {
	texts   map[string]string
	numbers map[string]int
}

// number returns one that was given, or otherwise.
func (a arguments) number(name string, otherwise int) int {
	if n, given := a.numbers[name]; given {
		return n
	}
	return otherwise
}

// tool is one that agents may call.
type tool struct {
	name, doc string
	takes     []argument
	// output is the JSON schema of what the tool returns beside text; "" for none.
	output string
	run    func(ctx context.Context, a arguments) (*sdk.CallToolResult, error)
	spends bool
}

// described is the tool as clients see it.
func (t *tool) described() *sdk.Tool {
	type property struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Minimum     int    `json:"minimum,omitempty"`
		Maximum     int    `json:"maximum,omitempty"`
	}
	properties, required := map[string]property{}, []string{}
	for _, a := range t.takes {
		p := property{Type: "string", Description: a.doc}
		if a.most > 0 {
			p = property{Type: "integer", Description: a.doc, Minimum: 1, Maximum: a.most}
		}
		properties[a.name] = p
		if a.required {
			required = append(required, a.name)
		}
	}
	d := &sdk.Tool{
		Name: t.name, Description: t.doc,
		InputSchema: map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false},
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(t.spends)},
	}
	if t.output != "" {
		d.OutputSchema = json.RawMessage(t.output)
	}
	return d
}

// usage says what the tool takes, for who called it otherwise.
func (t *tool) usage() string {
	names := make([]string, len(t.takes))
	for i, a := range t.takes {
		names[i] = a.name
		if a.required {
			names[i] += " (required)"
		}
	}
	if len(names) == 0 {
		return t.name + " takes no arguments"
	}
	return t.name + " takes " + strings.Join(names, ", ")
}

// parse checks the arguments of a call. An error names the right ones.
func (t *tool) parse(raw json.RawMessage) (arguments, error) {
	a := arguments{texts: map[string]string{}, numbers: map[string]int{}}
	given := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return a, fmt.Errorf("the arguments are no JSON object; %s", t.usage())
		}
	}
	for _, want := range t.takes {
		value, there := given[want.name]
		delete(given, want.name)
		if !there || string(value) == "null" {
			if want.required {
				return a, fmt.Errorf("%q is missing; %s", want.name, t.usage())
			}
			continue
		}
		if err := a.set(want, value); err != nil {
			return a, fmt.Errorf("%w; %s", err, t.usage())
		}
	}
	if len(given) > 0 {
		return a, fmt.Errorf("there is no argument %q; %s", slices.Sorted(maps.Keys(given))[0], t.usage())
	}
	return a, nil
}

// set keeps one argument.
func (a arguments) set(want argument, value json.RawMessage) error {
	var text string
	isText := json.Unmarshal(value, &text) == nil
	if want.most == 0 {
		if text = strings.TrimSpace(text); !isText || text == "" {
			return fmt.Errorf("%q is %.40s; it must be a text", want.name, value)
		}
		a.texts[want.name] = text
		return nil
	}
	if !isText { // some clients send numbers as texts
		text = string(value)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != float64(int(n)) || n < 1 || n > float64(want.most) {
		return fmt.Errorf("%q is %.40s; it must be a whole number from 1 to %d", want.name, value, want.most)
	}
	a.numbers[want.name] = int(n)
	return nil
}

// handle calls a tool. Whatever goes wrong in it is a result that the agent can read: an error, a panic, wrong arguments.
func (s *Server) handle(t *tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
		defer func() {
			if why := recover(); why != nil {
				s.cfg.Log.Error("a tool panicked", "tool", t.name, "panic", why, "stack", string(debug.Stack()))
				result, err = failed("aerie made a mistake, and its log says where"), nil
			}
		}()
		a, err := t.parse(req.Params.Arguments)
		if err != nil {
			return failed(err.Error()), nil
		}
		if _, named := a.texts["corpus"]; !named {
			a.texts["corpus"] = s.cfg.Corpus
		}
		if err := s.cfg.May(ctx, a.texts["corpus"]); err != nil {
			return failed(s.cfg.Explain(err)), nil
		}
		defer s.progress(ctx, req)()
		result, err = t.run(ctx, a)
		if err != nil {
			return failed(s.cfg.Explain(err)), nil
		}
		return result, nil
	}
}

// progress tells a client that asked for it every few seconds that its call goes on, until it is told to stop.
func (s *Server) progress(ctx context.Context, req *sdk.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(s.cfg.Progress)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			elapsed := time.Duration(n) * s.cfg.Progress
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Progress: elapsed.Seconds(), Message: fmt.Sprintf("%s, %s", req.Params.Name, elapsed),
			})
			if err != nil { // nobody listens
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// failed is an error that the agent reads.
func failed(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
