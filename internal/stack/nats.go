package stack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// natsServer returns the path of the nats-server that go.mod names, which is built if need be.
func natsServer(ctx context.Context, log io.Writer) (string, error) {
	const module = "github.com/nats-io/nats-server/v2"
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", module)
	version, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("stack: go list -m %s: %w", module, err)
	}
	where := exec.CommandContext(ctx, "go", "env", "GOMOD")
	gomod, err := where.Output()
	if err != nil {
		return "", fmt.Errorf("stack: go env GOMOD: %w", err)
	}
	binary := filepath.Join(filepath.Dir(strings.TrimSpace(string(gomod))), ".cache", "nats-server-"+strings.TrimSpace(string(version)))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return "", fmt.Errorf("stack: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", fmt.Sprintf("%s.%d", binary, os.Getpid()), module)
	build.Stdout, build.Stderr = log, log
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("stack: go build %s: %w", module, err)
	}
	if err := os.Rename(fmt.Sprintf("%s.%d", binary, os.Getpid()), binary); err != nil { // in one step: others may be building too
		return "", fmt.Errorf("stack: %w", err)
	}
	return binary, nil
}
