package natsqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/queue"
)

// Names on the server.
const (
	tasksStream    = "AERIE_TASKS"
	deadStream     = "AERIE_DEAD"
	plansBucket    = "AERIE_PLANS"
	plansStream    = "OBJ_" + plansBucket
	journalStream  = "KV_AERIE_JOURNAL"
	journalPrefix  = "$KV.AERIE_JOURNAL."
	attemptsStream = "KV_AERIE_ATTEMPTS"
	attemptsPrefix = "$KV.AERIE_ATTEMPTS."
	workers        = "workers"
)

const (
	maxTaskMsg = queue.MaxTaskBytes + 4<<10
	// maxDeadMsg leaves room for a task and its reason; see maxReason.
	maxDeadMsg = maxTaskMsg + 16<<10
)

// ErrMismatch: the server's streams aren't as they should be. The error lists every difference.
var ErrMismatch = errors.New("the server's configuration differs")

// streams returns the configuration of all streams.
func (c *Conn) streams() []jetstream.StreamConfig {
	tasks := jetstream.StreamConfig{
		Name:        tasksStream,
		Description: "aerie: unfinished tasks",
		Subjects:    []string{taskPrefix + "*.*.*.*"},
		Retention:   jetstream.WorkQueuePolicy,
		// These three make the stream refuse a second copy of an unfinished task.
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgSize:           maxTaskMsg,
	}
	dead := jetstream.StreamConfig{
		Name:              deadStream,
		Description:       "aerie: buried tasks",
		Subjects:          []string{deadPrefix + "*.*.*.*"},
		MaxMsgsPerSubject: 1, // the last one
		MaxMsgSize:        maxDeadMsg,
	}
	// The layout of nats.go's object store and key-value buckets, but for AllowDirect: with it, any replica
	// answers, and one that lags would have a call paid again.
	plans := jetstream.StreamConfig{
		Name:        plansStream,
		Description: "aerie: plans and tree records",
		Subjects:    []string{"$O." + plansBucket + ".C.>", "$O." + plansBucket + ".M.>"},
		Discard:     jetstream.DiscardNew,
		AllowRollup: true,
	}
	journal := bucketConfig(journalStream, journalPrefix, "aerie: paid answers", c.cfg.JournalTTL)
	attempts := bucketConfig(attemptsStream, attemptsPrefix, "aerie: attempts at tasks", c.cfg.AttemptsTTL)
	attempts.Duplicates = dedupWindow
	all := []jetstream.StreamConfig{tasks, dead, plans, journal, attempts}
	for i := range all {
		all[i].Storage = jetstream.FileStorage
		all[i].Replicas = c.cfg.Replicas
		all[i].Duplicates = max(all[i].Duplicates, noDedupWindow)
	}
	return all
}

// The server knows a message's id for a while. Only counts of attempts rely on it, to repeat a write whose reply was
// lost. For the others it is as short as the server allows: when it opens a stream, it reads all messages of the
// window.
const (
	dedupWindow   = 2 * time.Minute
	noDedupWindow = 100 * time.Millisecond
)

func bucketConfig(name, prefix, description string, ttl time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              name,
		Description:       description,
		Subjects:          []string{prefix + ">"},
		MaxMsgsPerSubject: 1,
		MaxAge:            ttl,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true,
		DenyDelete:        true,
	}
}

func (c *Conn) consumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:         workers,
		Description:     "aerie: workers",
		DeliverPolicy:   jetstream.DeliverAllPolicy,
		AckPolicy:       jetstream.AckExplicitPolicy,
		AckWait:         c.cfg.AckWait,
		MaxDeliver:      -1,
		MaxAckPending:   c.cfg.MaxAckPending,
		MaxWaiting:      max(512, 2*c.cfg.MaxAckPending), // one for each idle slot
		MaxRequestBatch: 1,                               // no client can fetch ahead
	}
}

// Migrate makes the streams and the consumer that are missing, and returns an ErrMismatch that lists how those
// that exist differ. It never changes what exists: see the message for what to do.
func (c *Conn) Migrate(ctx context.Context) error {
	for _, cfg := range c.streams() {
		if err := c.create(ctx, cfg); err != nil {
			return fmt.Errorf("natsqueue: create stream %s: %w", cfg.Name, err)
		}
	}
	if err := c.createConsumer(ctx); err != nil {
		return fmt.Errorf("natsqueue: create consumer %s: %w", workers, err)
	}
	return c.Check(ctx)
}

// create makes a stream unless there is one of that name.
func (c *Conn) create(ctx context.Context, cfg jetstream.StreamConfig) error {
	return c.try(ctx, createTimeout, func(ctx context.Context) error {
		_, err := c.js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil
		}
		return err
	})
}

// createTimeout is longer than that of other calls: a cluster elects a leader before it answers.
const createTimeout = 10 * time.Second

func (c *Conn) createConsumer(ctx context.Context) error {
	return c.try(ctx, createTimeout, func(ctx context.Context) error {
		_, err := c.js.CreateConsumer(ctx, tasksStream, c.consumer())
		if errors.Is(err, jetstream.ErrConsumerExists) {
			return nil
		}
		return err
	})
}

// Check returns an ErrMismatch that lists what is missing on the server or differs from what this client expects,
// and with Config.MonitorURL one that says that the server doesn't flush what it confirms.
func (c *Conn) Check(ctx context.Context) error {
	var differences []string
	for _, want := range c.streams() {
		var got *jetstream.StreamInfo
		err := c.try(ctx, c.cfg.CallTimeout, func(ctx context.Context) error {
			s, err := c.js.Stream(ctx, want.Name)
			if err == nil {
				got = s.CachedInfo()
			}
			return err
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			differences = append(differences, fmt.Sprintf("stream %s is missing", want.Name))
		case err != nil:
			return fmt.Errorf("natsqueue: check stream %s: %w", want.Name, err)
		default:
			differences = append(differences, diff("stream "+want.Name, streamFields(want), streamFields(got.Config))...)
		}
	}
	want := c.consumer()
	var got *jetstream.ConsumerInfo
	err := c.try(ctx, c.cfg.CallTimeout, func(ctx context.Context) error {
		consumer, err := c.js.Consumer(ctx, tasksStream, workers)
		if err == nil {
			got = consumer.CachedInfo()
		}
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		differences = append(differences, fmt.Sprintf("consumer %s is missing", workers))
	case err != nil:
		return fmt.Errorf("natsqueue: check consumer %s: %w", workers, err)
	default:
		differences = append(differences, diff("consumer "+workers, consumerFields(want), consumerFields(got.Config))...)
	}
	if len(differences) == 0 {
		return c.checkFlush(ctx)
	}
	return fmt.Errorf("natsqueue: %w: %s; start a coordinator to create what is missing, and edit what differs with `nats stream edit` or `nats consumer edit`, or set this client's configuration to match",
		ErrMismatch, strings.Join(differences, "; "))
}

// adopt prepares the store of an embedded queue: nobody else uses it, so what differs is updated, and the
// consumer is made anew, which ends the leases that a killed process has left behind.
func (c *Conn) adopt(ctx context.Context) error {
	for _, cfg := range c.streams() {
		if _, err := c.js.CreateOrUpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	err := c.js.DeleteConsumer(ctx, tasksStream, workers)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s: %w", workers, err)
	}
	if err := c.createConsumer(ctx); err != nil {
		return fmt.Errorf("consumer %s: %w", workers, err)
	}
	if err := c.finishRewrites(ctx); err != nil {
		return err
	}
	if err := (objects{conn: c}).sweep(ctx); err != nil {
		return fmt.Errorf("unfinished plans: %w", err)
	}
	return nil
}

// field is one setting that matters, written out.
type field struct{ name, value string }

func streamFields(c jetstream.StreamConfig) []field {
	return []field{
		{"subjects", fmt.Sprint(c.Subjects)},
		{"retention", c.Retention.String()},
		{"storage", c.Storage.String()},
		{"replicas", fmt.Sprint(c.Replicas)},
		{"discard", c.Discard.String()},
		{"discard new per subject", fmt.Sprint(c.DiscardNewPerSubject)},
		{"max messages per subject", limit(c.MaxMsgsPerSubject)},
		{"max messages", limit(c.MaxMsgs)},
		{"max age", c.MaxAge.String()},
		{"max message size", limit(int64(c.MaxMsgSize))},
		{"allow rollup", fmt.Sprint(c.AllowRollup)},
		{"allow direct", fmt.Sprint(c.AllowDirect)},
		{"duplicate window", c.Duplicates.String()},
		{"sealed", fmt.Sprint(c.Sealed)},
		{"deny purge", fmt.Sprint(c.DenyPurge)},
	}
}

func consumerFields(c jetstream.ConsumerConfig) []field {
	return []field{
		{"deliver policy", c.DeliverPolicy.String()},
		{"ack policy", c.AckPolicy.String()},
		{"ack wait", c.AckWait.String()},
		{"max deliver", limit(int64(c.MaxDeliver))},
		{"backoff", fmt.Sprint(c.BackOff)},
		{"filter", fmt.Sprint(c.FilterSubject, c.FilterSubjects)},
		{"max ack pending", limit(int64(c.MaxAckPending))},
		{"max waiting", limit(int64(c.MaxWaiting))},
		{"max batch", limit(int64(c.MaxRequestBatch))},
		{"inactive threshold", c.InactiveThreshold.String()},
		{"headers only", fmt.Sprint(c.HeadersOnly)},
	}
}

// limit writes a limit; the server keeps "none" as -1.
func limit(n int64) string {
	if n <= 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func diff(object string, want, got []field) []string {
	var list []string
	for i := range want {
		if want[i].value != got[i].value {
			list = append(list, fmt.Sprintf("%s: %s is %s, want %s", object, want[i].name, got[i].value, want[i].value))
		}
	}
	return list
}
