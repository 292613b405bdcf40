package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/cmd/internal/daemon"
	"github.com/aerie-rag/aerie/internal/api"
)

func TestRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "queue.url, state.url, store.url must be set"},
		{[]string{"--queue.url", "nats://h:4222", "--state-url=redis://h"}, "store.url must be set"},
		{[]string{"--slots", "0"}, "build.slots is 0 (--build-slots)"},
		{[]string{"--queue-ulr", "nats://h"}, "did you mean --queue-url?"},
		{[]string{"start"}, `got "start"`},
	} {
		var stdout, stderr bytes.Buffer
		if got := daemon.Main(program, c.args, nil, &stdout, &stderr); got != api.ExitUsage {
			t.Errorf("%q: exit %d, want %d", c.args, got, api.ExitUsage)
		}
		if stdout.Len() > 0 || !strings.Contains(stderr.String(), c.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: stdout %q, stderr %q; want %q", c.args, &stdout, &stderr, c.want)
		}
	}
	var stdout, stderr bytes.Buffer
	if got := daemon.Main(program, []string{"--help"}, nil, &stdout, &stderr); got != api.ExitDone || !strings.Contains(stdout.String(), "--queue-url") || stderr.Len() > 0 {
		t.Errorf("help: exit %d, stdout %q, stderr %q", got, &stdout, &stderr)
	}
}
