// Package weaviatetest runs real Weaviate servers for tests: it builds the server from its Go module, once, into a folder
// that Git ignores (.cache/weaviate at the module's root), and starts it on free ports of this machine.
//
// The server has its own module there, so that ours never depends on it.
package weaviatetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Version is that of the server.
const Version = "v1.35.2"

// ownModule is the line by which the module's root is known.
const ownModule = "module github.com/aerie-rag/aerie"

// Build returns the path of the server's binary. If it isn't there yet it is built, which takes about five minutes of one
// core; what the build says goes to log.
func Build(ctx context.Context, log io.Writer) (string, error) {
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, ".cache", "weaviate")
	binary := filepath.Join(folder, "weaviate-server-"+Version)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("weaviatetest: %w", err)
	}
	lock := flock.New(filepath.Join(folder, "build.lock"))
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("weaviatetest: %w", err)
	}
	defer lock.Close()
	if _, err := os.Stat(binary); err == nil { // another process has built it meanwhile
		return binary, nil
	}
	mod := "module aerie.invalid/weaviate-server\n\ngo 1.26.0\n"
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(mod), 0o644); err != nil {
		return "", fmt.Errorf("weaviatetest: %w", err)
	}
	pkg := "github.com/weaviate/weaviate/cmd/weaviate-server"
	fmt.Fprintf(log, "building Weaviate %s into %s: about five minutes of one core, once\n", Version, folder)
	for _, args := range [][]string{
		{"get", pkg + "@" + Version},
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", binary + ".new", pkg},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = folder, log, log
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("weaviatetest: go %s: %w", strings.Join(args, " "), err)
		}
	}
	if err := os.Rename(binary+".new", binary); err != nil {
		return "", fmt.Errorf("weaviatetest: %w", err)
	}
	return binary, nil
}

// findRoot returns the module's root, at or above the working folder.
func findRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("weaviatetest: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), ownModule+"\n") {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("weaviatetest: the working folder is not within aerie's module")
		}
		folder = parent
	}
}
