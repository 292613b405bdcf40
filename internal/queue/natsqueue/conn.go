package natsqueue

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/journal"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
)

// Conn is a client of JetStream, embedded or remote. Its methods, and those of what it hands out, may be called
// from many goroutines.
type Conn struct {
	cfg  Config
	url  string // for people; without a password
	nats *nats.Conn
	js   jetstream.JetStream

	closed   chan struct{} // closed when the connection is, for good
	contact  *broadcast    // sounds after each reconnect
	underway *underway     // calls that wait for an answer

	closing sync.Once

	files *flusher // flushes streams to the disk; nil if the server does so itself
	dir   string   // of the embedded server's streams; "" for a remote one
	home  string   // the folder that the embedded server was given
	// noSpace returns what the embedded server has said of a full disk; nil if it hasn't.
	noSpace func() error
	anew    sync.RWMutex // held by whoever writes to a stream that Rewrite writes anew, and by Rewrite
	stop    func() error // ends the embedded server; nil for a remote one
}

// newConn completes a client. options says how to reach the server.
func newConn(servers string, cfg Config, stop func() error, options ...nats.Option) (*Conn, error) {
	c := &Conn{
		cfg:      cfg,
		url:      redacted(servers),
		closed:   make(chan struct{}),
		contact:  newBroadcast(),
		underway: newUnderway(),
		stop:     stop,
	}
	log := cfg.Logger
	options = append([]nats.Option{
		nats.Name(cfg.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.Timeout(cfg.CallTimeout),
		nats.PingInterval(15 * time.Second),
		// What can't be sent now is an error now: a buffered heartbeat that goes out after the reconnect would
		// keep the lease of whoever holds the task by then.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.underway.sever()
			if err != nil {
				log.Warn("queue: connection lost, trying to reconnect", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("queue: connected again", "url", nc.ConnectedUrlRedacted())
			c.contact.sound()
		}),
		nats.ConnectHandler(func(*nats.Conn) { c.contact.sound() }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("queue: connection", "error", err)
		}),
	}, options...)
	var err error
	if c.nats, err = nats.Connect(servers, options...); err != nil {
		if passing(err) || errors.Is(err, nats.ErrAuthorization) {
			err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("natsqueue: connect: %w", err)
	}
	c.js, err = jetstream.New(c.nats,
		jetstream.WithDefaultTimeout(cfg.CallTimeout),
		jetstream.WithPublishAsyncMaxPending(16*publishWindow),
		jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		c.nats.Close()
		return nil, fmt.Errorf("natsqueue: %w", err)
	}
	return c, nil
}

// Queue returns the work queue.
func (c *Conn) Queue() queue.Queue { return &workQueue{conn: c} }

// Plans returns the store of plans and tree records.
func (c *Conn) Plans() levels.Plans { return &plans{objects: objects{conn: c}} }

// Journal returns the journal of paid answers and attempts.
func (c *Conn) Journal() journal.Journal { return &paidAnswers{conn: c} }

// flush returns when what was written to a stream is on the disk.
func (c *Conn) flush(stream string) error {
	if c.files == nil {
		return nil
	}
	if err := c.files.flush(stream); err != nil {
		if full := c.asFull(err); full != nil {
			return full
		}
		return fmt.Errorf("flush to disk: %w", err)
	}
	return nil
}

// Heartbeat is how often the holder of a delivery should call Extend.
func (c *Conn) Heartbeat() time.Duration { return c.cfg.Heartbeat }

// Closed is closed when the connection has ended for good: after Close, or when the server refuses the
// credentials. A process without it can do nothing but stop.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Err returns the last error of the connection, such as the reason for its end, or nil.
func (c *Conn) Err() error { return c.nats.LastError() }

// Close ends the connection, and the embedded server with it. Deliveries must be settled before: their leases
// run on, and no call works after. Closing twice is harmless.
func (c *Conn) Close() error {
	var err error
	c.closing.Do(func() {
		c.nats.Close()
		<-c.closed
		if c.stop != nil {
			err = c.stop()
		}
	})
	return err
}

// broadcast wakes everybody who waits.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{c: make(chan struct{})} }

// wait returns a channel that is closed at the next sound.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c
}

func (b *broadcast) sound() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.c)
	b.c = make(chan struct{})
}

// underway holds the calls that wait for an answer. Whatever was asked over a connection that is lost will not be
// answered, and a call may have a minute to wait.
type underway struct {
	mu    sync.Mutex
	calls map[*call]bool
}

type call struct{ cancel func() }

func newUnderway() *underway { return &underway{calls: map[*call]bool{}} }

// add takes note of a call until remove.
func (u *underway) add(cancel func()) (remove func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := &call{cancel: cancel}
	u.calls[one] = true
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.calls, one)
	}
}

// sever ends all calls under way.
func (u *underway) sever() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for one := range u.calls {
		one.cancel()
	}
}

// redacted returns a list of URLs without passwords and tokens.
func redacted(urls string) string {
	all := strings.Split(urls, ",")
	for i, one := range all {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil && u.User != nil {
			u.User = nil
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}
