package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/store/storetest"
)

// elsewhere is a builder that never gets the lease: another process has it, and says after so many tries what it builds.
type elsewhere struct {
	service.Builder
	records *leveltest.Memory
	after   int
	tries   int
}

func (e *elsewhere) Run(ctx context.Context, corpus string, _ coordinator.Request, _ api.BuildRequest) (api.BuildReport, error) {
	e.tries++
	if e.tries == e.after {
		lease, err := e.records.Acquire(ctx, corpus, levels.RightBuild, "another", time.Minute, 0)
		if err == nil {
			err = e.records.Save(ctx, lease, &levels.State{Corpus: corpus, Build: "theirs", Status: levels.Running})
		}
		if err != nil {
			return api.BuildReport{}, err
		}
	}
	return api.BuildReport{}, fmt.Errorf("corpus %s: %w", corpus, levels.ErrHeld)
}

// known makes the record of corpus c, as an ingest would.
func known(t *testing.T, records *leveltest.Memory) levels.Corpora {
	t.Helper()
	corpora := records.Corpora()
	if err := corpora.Update(t.Context(), "c", func(*levels.Corpus) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return corpora
}

// TestStartWhileAnotherBegins: another process has taken the lease and not said yet what it builds. Whoever asks for a build gets
// that one, and not an answer that there is none.
func TestStartWhileAnotherBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := leveltest.NewMemory()
		b := &elsewhere{records: records, after: 3}
		s := service.New(service.Config{}, service.Deps{
			Store: storetest.NewMemory(), Corpora: known(t, records), Builds: records, Barrier: records, Builder: b,
		})
		defer s.Close()
		got, err := s.Start(t.Context(), "c", api.Start{Key: "k"})
		if err != nil || got.Build != "theirs" || !got.Attached || got.Resting || b.tries != 3 {
			t.Errorf("after %d tries: %+v, %v", b.tries, got, err)
		}
	})
}

// TestStartWhileAnotherHoldsTheCorpus: it says nothing for long, such as one that removes what nobody needs.
func TestStartWhileAnotherHoldsTheCorpus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := leveltest.NewMemory()
		s := service.New(service.Config{}, service.Deps{
			Store: storetest.NewMemory(), Corpora: known(t, records), Builds: records, Barrier: records, Builder: &elsewhere{records: records},
		})
		defer s.Close()
		began := time.Now()
		_, err := s.Start(t.Context(), "c", api.Start{})
		var e *api.Error
		if !errors.As(err, &e) || e.Status != http.StatusConflict {
			t.Errorf("error %v, want a conflict", err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Start(ctx, "c", api.Start{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gives up: %v", err)
		}
	})
}

// TestA11Turn: a change of documents waits for another one, but not without end.
func TestA11Turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := leveltest.NewMemory()
		s := service.New(service.Config{Turn: time.Minute}, service.Deps{
			Store: storetest.NewMemory(), Corpora: records.Corpora(), Builds: records, Barrier: records, Embedder: llm.Lexical{}, Counter: corpus.NewCounter(),
		})
		defer s.Close()
		body, client := io.Pipe()
		first := make(chan error, 1)
		go func() {
			_, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Stream: body})
			first <- err
		}()
		synctest.Wait()
		began := time.Now()
		_, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Stream: rows(1)})
		if waited := time.Since(began); waited != time.Minute || api.Judge(err).Status != http.StatusConflict {
			t.Errorf("after %s: %v", waited, err)
		}
		client.Close()
		if err := <-first; err != nil {
			t.Error(err)
		}
		if _, err := s.IngestFiles(t.Context(), ingest.Request{Corpus: "c", Stream: rows(1)}); err != nil {
			t.Error(err)
		}
	})
}
