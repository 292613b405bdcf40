package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/queue/queuetest"
	"github.com/aerie-rag/aerie/internal/stack"
)

const (
	rounds   = 5
	perRound = 2000
	inFlight = workers * slots
)

// noWork sends tasks without work through the queue, and beside it through the fewest calls of nats.go that are as safe:
// asynchronous publishes, Next and DoubleAck. Both take turns, so that they see the same machine; the median round counts.
func noWork(ctx context.Context, out io.Writer, p *wire.Places, s *stack.Stack) error {
	nc, err := nats.Connect("nats://" + s.NATS.Address)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1024))
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, "AERIE_TASKS", "workers")
	if err != nil {
		return err
	}
	q := p.Queue()
	var ours, raw []float64
	for i := range rounds {
		mine := queuetest.Tasks(name, fmt.Sprint("ours", i), 1, perRound)
		start := time.Now()
		if err := q.Publish(ctx, mine); err != nil {
			return err
		}
		if err := drain(perRound, func() error {
			d, err := q.Receive(ctx)
			if err != nil {
				return err
			}
			return d.Done(ctx)
		}); err != nil {
			return err
		}
		ours = append(ours, perRound/time.Since(start).Seconds())

		theirs := queuetest.Tasks(name, fmt.Sprint("raw", i), 1, perRound)
		start = time.Now()
		if err := publishRaw(js, theirs); err != nil {
			return err
		}
		if err := drain(perRound, func() error {
			m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
			if err != nil {
				return err
			}
			return m.DoubleAck(ctx)
		}); err != nil {
			return err
		}
		raw = append(raw, perRound/time.Since(start).Seconds())
	}
	slices.Sort(ours)
	slices.Sort(raw)
	a, b := ours[rounds/2], raw[rounds/2]
	fmt.Fprintf(out, "tasks without work: %.0f a second, %.0f by the least calls of nats.go: %.2f times\n", a, b, a/b)
	return nil
}

func publishRaw(js jetstream.JetStream, tasks []queue.Task) error {
	for _, t := range tasks {
		body, err := json.Marshal(t)
		if err != nil {
			return err
		}
		if _, err := js.PublishAsync(fmt.Sprintf("aerie.task.%s.%s.%d.%s", t.Corpus, t.Build, t.Level, t.ID), body); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	return nil
}

// drain takes n tasks in as many goroutines as the fleet has slots.
func drain(n int, take func() error) error {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	errs := make(chan error, inFlight)
	var group sync.WaitGroup
	for range inFlight {
		group.Go(func() {
			for range left {
				if err := take(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}
