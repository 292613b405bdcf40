package natsqueue

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Backlog counts tasks of all builds, for metrics. Nothing may be decided by it: a task that the consumer never
// delivers, by a fault of the server, is in Unfinished alone.
type Backlog struct {
	Unfinished  int // in the stream
	Waiting     int // not delivered yet
	InHand      int // delivered and not settled, or given back with a delay
	Redelivered int // of InHand, delivered more than once
	Limit       int // of InHand: MaxAckPending
}

// Backlog returns the counts of this moment.
func (c *Conn) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	err := c.try(ctx, c.cfg.CallTimeout, func(ctx context.Context) error {
		stream, err := c.js.Stream(ctx, tasksStream)
		if err != nil {
			return err
		}
		consumer, err := stream.Consumer(ctx, workers)
		if err != nil {
			return err
		}
		b = backlogOf(stream.CachedInfo(), consumer.CachedInfo())
		return nil
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("natsqueue: backlog: %w", err)
	}
	return b, nil
}

func backlogOf(s *jetstream.StreamInfo, c *jetstream.ConsumerInfo) Backlog {
	return Backlog{
		Unfinished:  int(s.State.Msgs),
		Waiting:     int(c.NumPending),
		InHand:      c.NumAckPending,
		Redelivered: c.NumRedelivered,
		Limit:       c.Config.MaxAckPending,
	}
}
