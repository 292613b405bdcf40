package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/telemetry"
)

func TestLogLinesAreJSONWithTheirTrace(t *testing.T) {
	var b bytes.Buffer
	log, err := telemetry.NewLogger(&b, "info", "")
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(context.Background(), span)
	log.DebugContext(ctx, "not told")
	log.With("corpus", "c").InfoContext(ctx, "under a span")
	log.Info("under none")
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), b.String())
	}
	var got [2]map[string]any
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &got[i]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	if got[0]["trace_id"] != span.TraceID().String() || got[0]["span_id"] != span.SpanID().String() || got[0]["corpus"] != "c" {
		t.Errorf("under a span: %v", got[0])
	}
	if _, ok := got[1]["trace_id"]; ok {
		t.Errorf("under none: %v", got[1])
	}
}

// TestSecretsAreNotLogged logs a secret in each way that a careless line might.
func TestSecretsAreNotLogged(t *testing.T) {
	const plain = "sk-very-secret"
	cfg := config.Default()
	cfg.Summaries.APIKey, cfg.Store.APIKey = plain, plain
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		log, err := telemetry.NewLogger(&b, "debug", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("plain", "key", cfg.Summaries.APIKey)
		log.Info("inside", "summaries", cfg.Summaries)
		log.Info("all of it", "config", cfg)
		log.Info("grouped", slog.Group("g", "key", cfg.Summaries.APIKey))
		log.Error("an error", "error", fmt.Errorf("key %v, %s, %q, %#v, %+v", cfg.Summaries.APIKey, cfg.Summaries.APIKey, cfg.Summaries.APIKey, cfg.Summaries.APIKey, cfg.Summaries))
		log.With("key", cfg.Summaries.APIKey).Warn("with")
		if strings.Contains(b.String(), plain) {
			t.Errorf("%s tells the secret:\n%s", format, b.String())
		}
		if n := strings.Count(b.String(), "\n"); n != 6 {
			t.Errorf("%s has %d lines, want 6", format, n)
		}
	}
}

func TestLoggerRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, bad := range [][2]string{{"loud", "json"}, {"info", "xml"}, {"", "json"}} {
		if _, err := telemetry.NewLogger(&bytes.Buffer{}, bad[0], bad[1]); err == nil {
			t.Errorf("level %q and format %q: got no error", bad[0], bad[1])
		}
	}
}
