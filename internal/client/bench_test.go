package client_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/server"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

// BenchmarkOverHTTP compares the work at home with the same work through a server on loopback: the second ingest of 5,000 rows with
// vectors of 384, which finds all unchanged, and a query.
func BenchmarkOverHTTP(b *testing.B) {
	const rows, width = 5000, 384
	dir := b.TempDir()
	var lines, vectors bytes.Buffer
	values := make([]float32, 0, rows*width)
	for i := range rows {
		fmt.Fprintf(&lines, `{"id":"%d","document_id":"d%d","text":"Herons wait in shallow water, and this is what number %d does for a while before it flies."}`+"\n", i, i/50, i)
		for j := range width {
			values = append(values, float32((i*7+j*13)%101)-50)
		}
	}
	if err := npy.Write(&vectors, rows, width, values); err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{"rows.jsonl": lines.Bytes(), "v.npy": vectors.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	home := servicetest.Open(b, filepath.Join(dir, "home")).Service(b)
	web := httptest.NewServer(server.New(server.Config{}, home, nil).Handler())
	b.Cleanup(web.Close)
	remote, err := client.New(client.Config{URL: web.URL})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(remote.Close)
	req := ingest.Request{Corpus: "birds", Paths: []string{filepath.Join(dir, "rows.jsonl")}, Vectors: filepath.Join(dir, "v.npy")}
	if _, err := home.IngestFiles(b.Context(), req); err != nil {
		b.Fatal(err)
	}
	for _, place := range []struct {
		name string
		api.Service
		ingest func(context.Context, ingest.Request) (api.IngestReport, error)
	}{{"home", home, home.IngestFiles}, {"server", remote, ingest.Remote{To: remote}.Ingest}} {
		b.Run("ingest/"+place.name, func(b *testing.B) {
			for b.Loop() {
				if report, err := place.ingest(b.Context(), req); err != nil || report.Documents.Unchanged != rows/50 {
					b.Fatalf("%v: %+v", err, report)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
		b.Run("query/"+place.name, func(b *testing.B) {
			alpha := 0.5
			for b.Loop() {
				if _, err := place.Query(b.Context(), "birds", api.Query{Query: "what does number 77 do", Vector: values[:width], Options: retrieve.Options{Alpha: &alpha}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
