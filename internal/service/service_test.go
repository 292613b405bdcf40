package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rows(n int) *strings.Reader {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"%d","document_id":"d%d","text":"This is what number %d says."}`+"\n", i, i%5, i)
	}
	return strings.NewReader(b.String())
}

func fill(t *testing.T, s *service.Service, n int) {
	t.Helper()
	if _, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Stream: rows(n)}); err != nil {
		t.Fatal(err)
	}
}

// TestTwoReplicas: two services share their places. One builds; the other says so, and follows, pauses and reports that build.
func TestTwoReplicas(t *testing.T) {
	place := servicetest.Open(t, t.TempDir())
	a, b := place.ServiceOf(t, "a"), place.ServiceOf(t, "b")
	fill(t, a, 40)
	gate := make(chan struct{})
	var once sync.Once
	open := func() { once.Do(func() { close(gate) }) }
	t.Cleanup(open)
	place.Summarize = func(context.Context) error { <-gate; return nil }
	first, err := a.Start(t.Context(), "c", api.Start{BuildRequest: api.BuildRequest{Force: true}, Key: "k"})
	if err != nil || first.Build == "" || first.Attached {
		t.Fatalf("%v: %+v", err, first)
	}
	second, err := b.Start(t.Context(), "c", api.Start{})
	if err != nil || second.Build != first.Build || !second.Attached || second.Resting {
		t.Fatalf("%v: %+v", err, second)
	}
	if same, err := b.Start(t.Context(), "c", api.Start{BuildRequest: api.BuildRequest{Force: true}, Key: "k"}); err != nil || same.Build != first.Build {
		t.Errorf("%v: %+v", err, same)
	}
	var e *api.Error
	if _, err := b.Start(t.Context(), "c", api.Start{Key: "k"}); !errors.As(err, &e) || e.Exit != api.ExitUsage {
		t.Errorf("the key for another request: %v", err)
	}
	if _, err := b.Collect(t.Context(), "c"); !errors.As(err, &e) || e.Status != http.StatusConflict || !strings.Contains(err.Error(), first.Build) {
		t.Errorf("gc beside a build elsewhere: %v", err)
	}
	if _, err := b.Stop(t.Context(), "c", first.Build, false); err != nil {
		t.Fatal(err)
	}
	open()
	var rest api.Build
	for !rest.Resting {
		if rest, err = b.Build(t.Context(), "c", first.Build); err != nil {
			t.Fatal(err)
		}
	}
	if rest.State != levels.Paused || rest.Report.Outcome != api.OutcomePaused {
		t.Errorf("%s: %+v", rest.State, rest.Report)
	}
}

// TestClosed: a service that is closed starts nothing, and what it was building has ended.
func TestClosed(t *testing.T) {
	place := servicetest.Open(t, t.TempDir())
	s := place.Service(t)
	fill(t, s, 40)
	begun := make(chan struct{})
	var once sync.Once
	place.Summarize = func(ctx context.Context) error {
		once.Do(func() { close(begun) })
		return nil
	}
	first, err := s.Start(t.Context(), "c", api.Start{})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	s.Close()
	if b, err := s.Build(t.Context(), "c", first.Build); err != nil || !b.Resting {
		t.Errorf("%v: %+v", err, b)
	}
	var e *api.Error
	if _, err := s.Start(t.Context(), "c", api.Start{}); !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("%v", err)
	}
}

// TestIngestsTakeTurns: two ingests of one corpus at once don't mix, and a caller that gives up waiting is told so.
func TestIngestsTakeTurns(t *testing.T) {
	s := servicetest.Open(t, t.TempDir()).Service(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			report, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Stream: rows(200)})
			if err != nil || report.Leaves.Total != 200 || report.ErrorCount != 0 {
				t.Errorf("%v: %+v", err, report)
			}
		})
	}
	all.Wait()
	status, err := s.Status(t.Context(), "c")
	if err != nil || status.Corpora[0].Leaves != 200 || status.Corpora[0].Documents != 5 {
		t.Errorf("%v: %+v", err, status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.IngestFiles(ctx, ingest.Request{Corpus: "c", Stream: rows(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestDocumentsPages: a list comes whole without a limit, and in pages with one.
func TestDocumentsPages(t *testing.T) {
	svc := servicetest.Open(t, t.TempDir()).Service(t)
	var rows strings.Builder
	for i := range 5 {
		fmt.Fprintf(&rows, `{"id":"%d","document_id":"d%d","text":"Bird %d."}`+"\n", i, i, i)
	}
	if _, err := svc.Ingest(t.Context(), api.IngestRequest{Corpus: "birds", Stream: strings.NewReader(rows.String())}); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int][]int{0: {5}, 2: {2, 2, 1}, 5: {5}, 9: {5}} {
		var got []int
		req := api.DocumentsRequest{Corpus: "birds", Limit: limit}
		for {
			page, err := svc.Documents(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, len(page.Documents))
			if req.Cursor = page.NextCursor; req.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: pages of %v, want %v", limit, got, want)
		}
	}
}
