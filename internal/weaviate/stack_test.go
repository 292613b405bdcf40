//go:build stack

package weaviate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/retrieve/retrievetest"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
	"github.com/aerie-rag/aerie/internal/weaviate"
	"github.com/aerie-rag/aerie/internal/weaviate/weaviatetest"
)

// server is the Weaviate that all tests of the package share.
var server *weaviatetest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withServer(m.Run))
}

func withServer(run func() int) int {
	folder, err := os.MkdirTemp("", "aerie-weaviate-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	server, err = weaviatetest.Start(context.Background(), weaviatetest.Options{Folder: folder, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := run()
	if err := errors.Join(server.Stop(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// connect returns a store on the shared server; what the config lacks is filled in.
func connect(tb testing.TB, cfg weaviate.Config) *weaviate.Store {
	tb.Helper()
	if cfg.URL == "" {
		cfg.URL, cfg.GRPC = server.URL, server.GRPC
	}
	s, err := weaviate.Connect(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return connect(t, weaviate.Config{}) })
}

// TestC12Languages: 22 languages, in both normal forms, with and without marks.
func TestC12Languages(t *testing.T) { storetest.Languages(t, connect(t, weaviate.Config{})) }

func TestRetriever(t *testing.T) {
	retrievetest.Run(t, func(t *testing.T) store.Store { return connect(t, weaviate.Config{}) })
}
