package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
)

// spans is an OTLP receiver that keeps what it is sent.
type spans struct {
	mu   sync.Mutex
	sent strings.Builder
}

func (s *spans) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			return
		}
		body = zip
	}
	data, _ := io.ReadAll(body) // what doesn't come is missing below
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Write(data)
}

// TestSeeds12 (Seeds 12): aerie build obeys OTEL_* like the daemons; its table has the largest cluster in nodes and what each level
// makes of its tokens; and where build.min_chunks ends the tree, it is said that it counts on every level.
func TestSeeds12(t *testing.T) {
	fixtures := fresh(t)
	to := &spans{}
	web := httptest.NewServer(to)
	defer web.Close()
	aerie(t, "ingest", fixtures).want(t, exitDone)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", web.URL)
	r := aerie(t, "build", "--build.min_chunks", "5", "-o", "json").want(t, exitDone)
	to.mu.Lock()
	sent := to.sent.String()
	to.mu.Unlock()
	for _, name := range []string{"service.name", "aerie", "level", "task"} {
		if !strings.Contains(sent, name) {
			t.Errorf("no %q in %d bytes of traces", name, len(sent))
		}
	}
	report := decode[api.BuildReport](t, r)
	for _, l := range report.Levels {
		if l.LargestClusterNodes < int(l.MeanClusterSize) || l.LargestClusterNodes > l.NodesIn {
			t.Errorf("level %d: the largest cluster has %d of %d nodes, the mean %.1f", l.Level, l.LargestClusterNodes, l.NodesIn, l.MeanClusterSize)
		}
		if l.Calls > 0 && (l.Compression <= 0 || l.Compression >= 1) {
			t.Errorf("level %d: compression %.2f", l.Level, l.Compression)
		}
	}
	if !strings.HasSuffix(report.StoppedBecause, "build.min_chunks is 5: on every level, fewer get no summaries above them") {
		t.Errorf("stopped because %q", report.StoppedBecause)
	}
	table := aerie(t, "build", "--force", "--clustering.seed", "5").want(t, exitDone).stdout
	for _, column := range []string{"out / in", "largest cluster", "most nodes", "mean nodes"} {
		if !strings.Contains(table, column) {
			t.Errorf("no column %q in\n%s", column, table)
		}
	}
}
