package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/cmd/internal/history"
	"github.com/aerie-rag/aerie/internal/client"
)

// clients of the coordinators work at the same time, and contend for a few documents.
const (
	clients         = 8
	leastOperations = 2000
)

// contend lets clients ingest, delete, list, read, build and collect through all coordinators at once while things break, at least
// until the time is over, and judges what they were told.
func (t *test) contend(ctx context.Context, seed uint64, until time.Time) error {
	const corpus = "contended"
	var coordinators []history.Coordinator
	for _, c := range t.fleet.clients {
		coordinators = append(coordinators, c)
	}
	breaking, stop := context.WithCancel(ctx)
	defer stop()
	faults := newFaults(t)
	faults.again = true
	faults.left = append(faults.left, special{"a coordinator paused beyond its rights", faults.pauseCoordinator})
	broken := make(chan error, 1)
	go func() { broken <- faults.run(breaking, corpus) }()
	t.say("%d clients of %d coordinators contend for the documents of one corpus", clients, len(coordinators))
	cfg := history.Config{
		Corpus: corpus, Seed: seed, Clients: clients, Documents: 5, Operations: leastOperations, Until: until, Timeout: 30 * time.Second, Pictures: t.folder,
	}
	report, err := history.Run(ctx, cfg, coordinators, func() error {
		stop()
		if err := <-broken; err != nil {
			return err
		}
		return t.fleet.ask(ctx, func(c *client.Client) error { _, err := c.Status(ctx, ""); return err })
	})
	if err != nil {
		return err
	}
	faults.tell()
	t.say("%v", report)
	switch {
	case len(report.Wrong) > 0:
		return errors.New("what clients were told can't be")
	case report.Operations < leastOperations:
		return fmt.Errorf("%d operations ended, %d are wanted", report.Operations, leastOperations)
	}
	return nil
}
