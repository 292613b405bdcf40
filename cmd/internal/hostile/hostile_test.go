package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if err := start(context.Background(), os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestHostile is a short attack; `make hostile` is a long one.
func TestHostile(t *testing.T) {
	var out bytes.Buffer
	if err := start(t.Context(), []string{"--seed", "11", "--count", "25"}, &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
