// Command fleetbench measures what the queue costs on a fleet of this machine: `make bench-stack`. It starts the three servers,
// four workers of 16 slots and an endpoint of one second, builds one level of 2,000 tasks, and compares the time from the
// first publish to the last barrier mark with what the calls alone would take. Then it sends tasks without work through the
// queue, beside the fewest calls of nats.go that are as safe.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/stack"
)

const (
	workers = 4
	slots   = 16
	tasks   = 2000
	perTask = 5 // leaves; mode kmeans makes a cluster of each five
	name    = "bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleetbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("fleetbench", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "folder of the programs")
	latency := flags.Duration("latency", time.Second, "of each call")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "aerie-fleetbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	servers, err := stack.Up(ctx, filepath.Join(folder, "stack"), os.Stderr)
	if servers != nil {
		defer func() { err = errors.Join(err, servers.Down(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	endpoint := llmtest.New(llmtest.Config{Latency: *latency})
	defer endpoint.Close()
	cfg, file, err := configure(folder, servers, endpoint)
	if err != nil {
		return err
	}
	p, err := wire.Fleet(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Migrate(ctx); err != nil {
		return err
	}
	if err := noWork(ctx, out, p, servers); err != nil {
		return err
	}
	for range workers {
		cmd := exec.Command(filepath.Join(*bin, "worker"), "--config", file, "--log-level", "error")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }()
	}
	return level(ctx, out, cfg, p, folder, *latency)
}

func configure(folder string, s *stack.Stack, endpoint *llmtest.Server) (*config.Config, string, error) {
	u, file := s.URLs(), filepath.Join(folder, "fleet.yaml")
	text := fmt.Sprintf(`corpus: %s
queue: {url: %q}
state: {url: %q}
store: {url: %q, grpc_url: %q}
summaries: {provider: openai, base_url: %q, model: fake}
clustering: {mode: kmeans}
build: {slots: %d, max_depth: 1}
worker: {listen: "127.0.0.1:0"}
`, name, u["queue.url"], u["state.url"], u["store.url"], u["store.grpc_url"], endpoint.URL(), slots)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, "", err
	}
	cfg, _, err := config.Load(config.Options{File: file})
	return cfg, file, err
}

// level builds one level and prints how much longer it took than its calls.
func level(ctx context.Context, out io.Writer, cfg *config.Config, p *wire.Places, folder string, latency time.Duration) error {
	counter := corpus.NewCounter()
	models, err := p.Models(counter, p.Journal(), wire.BudgetOf(cfg, wire.NoRequest))
	if err != nil {
		return err
	}
	builder := &wire.Builder{Places: p, Models: models, Holder: "fleetbench"}
	sc, deps, err := p.ServiceConfig(counter, builder)
	if err != nil {
		return err
	}
	svc := service.New(sc, deps)
	defer svc.Close()
	file := filepath.Join(folder, "leaves.jsonl")
	if err := os.WriteFile(file, leaves(tasks*perTask), 0o644); err != nil {
		return err
	}
	start := time.Now()
	if _, err := svc.IngestFiles(ctx, ingest.Request{Corpus: name, Paths: []string{file}}); err != nil {
		return err
	}
	ingested := time.Since(start)
	report, err := builder.Run(ctx, name, coordinator.Request{Force: true, Trigger: "command"}, api.BuildRequest{})
	if err != nil {
		return err
	}
	if report.Outcome != api.OutcomeBuilt {
		return fmt.Errorf("the build is %s: %s", report.Outcome, report.Why)
	}
	l := report.Levels[0]
	alone := float64(l.Calls) * latency.Seconds() / (workers * slots)
	fmt.Fprintf(out, "%d leaves ingested in %.1f s\n", tasks*perTask, ingested.Seconds())
	fmt.Fprintf(out, "%d tasks, %d calls of %v on %d slots: %.2f s from the first publish to the last barrier mark, %.2f s for the calls alone: %.3f times\n",
		l.NodesOut, l.Calls, latency, workers*slots, l.Seconds, alone, l.Seconds/alone)
	return nil
}

// leaves returns rows of ready-made chunks in groups of words of their own, so that there is something to cluster.
func leaves(n int) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for i := range n {
		group := i / perTask
		words := make([]string, 24)
		for w := range words {
			words[w] = fmt.Sprintf("w%dx%d", group%97*31+group/97, (i*7+w*w)%12)
		}
		row := map[string]any{"id": fmt.Sprint(i), "document_id": fmt.Sprint("d", i/100), "chunk_index": i % 100, "text": fmt.Sprintf("Leaf %d: %s.", i, strings.Join(words, " "))}
		if err := e.Encode(row); err != nil {
			panic("texts always encode: " + err.Error())
		}
	}
	return b.Bytes()
}
