package service_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
	"github.com/aerie-rag/aerie/internal/store/storetest"
)

// version is the JSONL of one version of a document: three rows, the second the same in all.
func version(round int, of string) string {
	var b strings.Builder
	for i, text := range []string{"first of " + of, "the middle stays", "last of " + of} {
		fmt.Fprintf(&b, "{\"id\":\"%d\",\"document_id\":\"d\",\"chunk_index\":%d,\"text\":\"round %d: %s\"}\n", i, i, round, text)
	}
	return b.String()
}

// TestA1VersionsAtTheSameTime: two processes ingest versions of one document at the same time. One of them is there afterwards, whole.
func TestA1VersionsAtTheSameTime(t *testing.T) {
	place := servicetest.Open(t, t.TempDir())
	one, two := place.ServiceOf(t, "one"), place.ServiceOf(t, "two")
	for round := range 30 {
		var both sync.WaitGroup
		for i, s := range []*service.Service{one, two} {
			both.Go(func() {
				report, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Paths: []string{"-"}, Stdin: strings.NewReader(version(round, fmt.Sprint("version ", i)))})
				if err != nil || report.LeftOut() {
					t.Errorf("round %d: %+v, %v", round, report, err)
				}
			})
		}
		both.Wait()
		got := texts(t, one, "c")
		want0, want1 := versionTexts(round, "version 0"), versionTexts(round, "version 1")
		if !slices.Equal(got, want0) && !slices.Equal(got, want1) {
			t.Fatalf("round %d: the document is neither version: %q", round, got)
		}
	}
}

func versionTexts(round int, of string) []string {
	return []string{fmt.Sprintf("round %d: first of %s", round, of), fmt.Sprintf("round %d: the middle stays", round), fmt.Sprintf("round %d: last of %s", round, of)}
}

// texts are those of the corpus's leaves, in order.
func texts(t *testing.T, s *service.Service, corpus string) []string {
	t.Helper()
	var leaves []api.Node
	err := s.Nodes(t.Context(), api.TreeRequest{Corpus: corpus, Text: true}, func(api.TreeHead) error { return nil }, func(n *api.Node) error {
		leaves = append(leaves, *n)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(leaves, func(a, b api.Node) int { return cmp.Compare(a.ChunkIndex, b.ChunkIndex) })
	var all []string
	for _, n := range leaves {
		all = append(all, n.Text)
	}
	return all
}

// endless is a body of which nothing comes until it is closed.
type endless struct{ closed chan struct{} }

func (e endless) Read([]byte) (int, error) {
	<-e.closed
	return 0, io.EOF
}

// TestA11BoundedWait: a client sends its documents as slowly as it can. Others are told so after a while, and don't wait for ever.
func TestA11BoundedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := leveltest.NewMemory()
		deps := service.Deps{
			Store: storetest.NewMemory(), Corpora: records.Corpora(), Builds: records, Barrier: records, Builder: &elsewhere{records: records}, Embedder: llm.Lexical{},
		}
		here, there := service.New(service.Config{}, deps), service.New(service.Config{}, deps)
		defer here.Close()
		defer there.Close()
		if _, err := here.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Paths: []string{"-"}, Stdin: strings.NewReader(version(0, "it"))}); err != nil {
			t.Fatal(err)
		}
		body := endless{make(chan struct{})}
		var slow sync.WaitGroup
		slow.Go(func() {
			if _, err := here.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Paths: []string{"-"}, Stdin: body}); err != nil {
				t.Errorf("the slow one: %v", err)
			}
		})
		synctest.Wait()
		for name, s := range map[string]*service.Service{"the same process": here, "another process": there} {
			for what, change := range map[string]func() error{
				"ingest": func() error {
					_, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Paths: []string{"-"}, Stdin: strings.NewReader(version(1, "it"))})
					return err
				},
				"delete": func() error { _, err := s.Delete(t.Context(), "c", []string{"d"}); return err },
				"drop":   func() error { _, err := s.DeleteCorpus(t.Context(), "c"); return err },
			} {
				began := time.Now()
				err := change()
				var e *api.Error
				if !errors.As(err, &e) || e.Status != http.StatusConflict || e.Hint == "" {
					t.Errorf("%s by %s: %v, want a conflict with a hint", what, name, err)
				}
				if took := time.Since(began); took < 10*time.Second || took > time.Minute {
					t.Errorf("%s by %s waited %v", what, name, took)
				}
			}
		}
		close(body.closed)
		slow.Wait()
		if _, err := there.Delete(t.Context(), "c", []string{"d"}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
