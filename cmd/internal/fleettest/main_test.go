//go:build stack

package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aerie-rag/aerie/internal/stack"
)

var (
	// shared is the stack whose Weaviate all tests use.
	shared *stack.Stack
	// programs is the folder of aerie, coordinator and worker.
	programs string
)

func TestMain(m *testing.M) { os.Exit(withServers(m.Run)) }

// withServers builds the programs and starts the servers, both once for all tests.
func withServers(run func() int) (code int) {
	folder, err := os.MkdirTemp("", "aerie-fleet-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute) // Weaviate may have to be built
	defer cancel()
	if shared, err = stack.Up(ctx, filepath.Join(folder, "stack"), os.Stderr); err == nil {
		programs = filepath.Join(folder, "bin")
		err = buildPrograms(ctx, programs)
	}
	if err == nil {
		code = run()
	}
	if shared != nil {
		err = errors.Join(err, shared.Down(context.WithoutCancel(ctx)))
	}
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func buildPrograms(ctx context.Context, dir string) error {
	const module = "github.com/aerie-rag/aerie/cmd/"
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), module+"aerie", module+"coordinator", module+"worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	return nil
}
