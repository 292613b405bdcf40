package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/telemetry"
	"github.com/aerie-rag/aerie/internal/tree"
)

// TestAwayReceiverIsLogged: a receiver that refuses traces is told of in a line of the log's own form, once, and the end of the
// program doesn't wait for it.
func TestAwayReceiverIsLogged(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refusing.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, url := range map[string]string{"refusing": refusing.URL, "gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			var lines bytes.Buffer
			log, err := telemetry.NewLogger(&lines, "info", "json")
			if err != nil {
				t.Fatal(err)
			}
			tel, err := telemetry.New(telemetry.Config{Program: "worker", Tracing: telemetry.Tracing{Endpoint: url}, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			tel.Coordinator().Planning(tree.Level{Corpus: "c", Build: "b", Level: 1})
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			tel.Close(ctx)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("the end took %v", took)
			}
			for line := range strings.Lines(lines.String()) {
				var parsed map[string]any
				if err := json.Unmarshal([]byte(line), &parsed); err != nil || parsed["level"] != "WARN" {
					t.Errorf("%q: %v", line, err)
				}
			}
			if !strings.Contains(lines.String(), "not sent") {
				t.Errorf("nothing is told: %q", lines.String())
			}
		})
	}
}

// TestTracesAreOffUnlessAskedFor holds what turns traces on and off, and what is refused.
func TestTracesAreOffUnlessAskedFor(t *testing.T) {
	to := newReceiver(t)
	standard := "OTEL_EXPORTER_OTLP_ENDPOINT=" + to.url
	for _, test := range []struct {
		name    string
		tracing telemetry.Tracing
		env     []string
		on      bool
		err     string
	}{
		{name: "nothing set"},
		{name: "the setting", tracing: telemetry.Tracing{Endpoint: to.url}, on: true},
		{name: "the standard variable", env: []string{standard}, on: true},
		{name: "the standard variable for traces", env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + to.url + "/v1/traces"}, on: true},
		{name: "turned off", tracing: telemetry.Tracing{Endpoint: to.url}, env: []string{standard, "OTEL_TRACES_EXPORTER=none"}},
		{name: "the whole of it turned off", env: []string{standard, "OTEL_SDK_DISABLED=true"}},
		{name: "another exporter", env: []string{"OTEL_TRACES_EXPORTER=zipkin"}, err: `OTEL_TRACES_EXPORTER is "zipkin"`},
		{name: "another protocol", env: []string{standard, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, err: "http/protobuf only"},
		{name: "no address", tracing: telemetry.Tracing{Endpoint: "collector:4318"}, err: "telemetry.otlp_endpoint"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, pair := range test.env {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			tel, err := telemetry.New(telemetry.Config{Program: "worker", Tracing: test.tracing, Env: test.env})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			before := len(to.named("raptor.level"))
			level := tree.Level{Corpus: "c", Build: "b", Level: 1}
			tel.Coordinator().Planning(level)
			tel.Coordinator().Planned(level, nil, 0)
			tel.Close(context.Background())
			if got := len(to.named("raptor.level")) > before; got != test.on {
				t.Errorf("traces are on: %t, want %t", got, test.on)
			}
		})
	}
}
