package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/aerie-rag/aerie/internal/printable"
)

// NewLogger returns a logger of lines to w. level is debug, info, warn or error; format is "json" (which "" is too) or
// "text". What is logged under the context of a span has its trace_id and span_id.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("telemetry: the log level is %q; it must be debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	w = printable.Writer(w, printable.Escaped)
	switch format {
	case "", "json":
		return slog.New(traced{slog.NewJSONHandler(w, options)}), nil
	case "text":
		return slog.New(traced{slog.NewTextHandler(w, options)}), nil
	}
	return nil, fmt.Errorf("telemetry: the log format is %q; it must be json or text", format)
}

// traced is a handler that adds the ids of the span that something is logged under.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
