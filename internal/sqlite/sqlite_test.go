package sqlite

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/levels/leveltest"
	"github.com/aerie-rag/aerie/internal/retrieve/retrievetest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestMain(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		number, err := strconv.Atoi(os.Getenv("AERIE_SQLITE_TEST_CHILD"))
		if err == nil {
			err = runChild(home, number, os.Stdout)
		}
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// open opens a home that lives as long as the test.
func open(t testing.TB, home string, cfg Config) *DB {
	t.Helper()
	db, err := Open(home, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestStoreContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir(), Config{}).Store() })
}

func TestRetriever(t *testing.T) {
	retrievetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir(), Config{}).Store() })
}

// TestC12Languages: 22 languages, in both normal forms, with and without marks.
func TestC12Languages(t *testing.T) {
	storetest.Languages(t, open(t, t.TempDir(), Config{}).Store())
}

// TestStoreContractAcrossHandles sends every other call to another DB on the same home, as another process would.
func TestStoreContractAcrossHandles(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		home := t.TempDir()
		return &alternating{stores: [2]store.Store{open(t, home, Config{}).Store(), open(t, home, Config{}).Store()}}
	})
}

// alternating takes turns between two stores.
type alternating struct {
	stores [2]store.Store
	calls  atomic.Int64
}

func (a *alternating) turn() store.Store { return a.stores[a.calls.Add(1)%2] }

func (a *alternating) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	return a.turn().Put(ctx, corpus, nodes)
}

func (a *alternating) Get(ctx context.Context, corpus string, ids []tree.ID, with store.Fields) ([]tree.Node, error) {
	return a.turn().Get(ctx, corpus, ids, with)
}

func (a *alternating) Each(ctx context.Context, corpus string, filter store.Filter, with store.Fields, fn func(*tree.Node) error) error {
	return a.turn().Each(ctx, corpus, filter, with, fn)
}

func (a *alternating) Count(ctx context.Context, corpus string, filter store.Filter) (int, error) {
	return a.turn().Count(ctx, corpus, filter)
}

func (a *alternating) Documents(ctx context.Context, corpus, prefix string, fn func(store.Document) error) error {
	return a.turn().Documents(ctx, corpus, prefix, fn)
}

func (a *alternating) DocumentsAfter(ctx context.Context, corpus, prefix, after string, limit int) ([]store.Document, error) {
	return a.turn().DocumentsAfter(ctx, corpus, prefix, after, limit)
}

func (a *alternating) CountDocuments(ctx context.Context, corpus string) (int, error) {
	return a.turn().CountDocuments(ctx, corpus)
}

func (a *alternating) MetadataKeys(ctx context.Context, corpus string) ([]string, error) {
	return a.turn().MetadataKeys(ctx, corpus)
}

func (a *alternating) Search(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	return a.turn().Search(ctx, corpus, q)
}

func (a *alternating) Keyword(ctx context.Context, corpus string, q store.Query) ([]store.Hit, error) {
	return a.turn().Keyword(ctx, corpus, q)
}

func (a *alternating) SetLife(ctx context.Context, corpus string, ids []tree.ID, born, died int) error {
	return a.turn().SetLife(ctx, corpus, ids, born, died)
}

func (a *alternating) Delete(ctx context.Context, corpus string, ids []tree.ID) error {
	return a.turn().Delete(ctx, corpus, ids)
}

func (a *alternating) Drop(ctx context.Context, corpus string) error {
	return a.turn().Drop(ctx, corpus)
}

func TestLevelsContract(t *testing.T) {
	leveltest.Run(t, func(t *testing.T) leveltest.Ports {
		var elapsed atomic.Int64
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		db := open(t, t.TempDir(), Config{Now: func() time.Time { return start.Add(time.Duration(elapsed.Load())) }})
		return leveltest.Ports{
			Barrier: db.Barrier(), Builds: db.Builds(), Corpora: db.Corpora(), Members: db.Members(),
			Advance: func(d time.Duration) { elapsed.Add(int64(d)) },
		}
	})
}
