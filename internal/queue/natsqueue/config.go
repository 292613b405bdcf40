package natsqueue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config configures a Conn. The zero value works for an embedded queue and for a server without authentication.
type Config struct {
	// AckWait is the lease on a delivery: how long after the last sign of life a task is delivered to another
	// worker. 0 means 60 s; at least 500 ms.
	AckWait time.Duration
	// Heartbeat is how often workers mean to call Extend. 0 means a third of AckWait, which is also the
	// most: a slower heart would lose its lease to one lost beat.
	Heartbeat time.Duration
	// MaxAckPending bounds the tasks in hand and in delay over all workers, and so the calls at a time. 0 means
	// 1024; else from 1. For a fleet: workers × slots × 1.25, and room for tasks that wait out a delay.
	MaxAckPending int
	// Replicas of every stream: 1, 3 or 5; 0 means 1. An embedded queue has 1.
	Replicas int
	// JournalTTL is how long paid answers are kept; 0 for ever.
	JournalTTL time.Duration
	// AttemptsTTL is how long the counts of attempts are kept after the last change; 0 means 7 days.
	AttemptsTTL time.Duration

	// SyncInterval is how often an embedded queue flushes to the disk what isn't flushed before it is confirmed, as
	// paid answers and plans are. A killed process loses nothing either way; a power cut takes the interval, which is
	// made again. 0 means 5 s; at least 100 ms. A server has a setting of its own for this.
	SyncInterval time.Duration
	// SyncAlways makes an embedded queue flush every write before it is confirmed.
	SyncAlways bool

	// Name is what a server shows for this client; "" means "aerie".
	Name string
	// CredentialsFile is a .creds file (JWT and seed); "" for none.
	CredentialsFile string
	// NKeySeedFile is a file with an nkey seed; "" for none. Not together with CredentialsFile.
	NKeySeedFile string
	// MonitorURL is the server's monitoring address, such as http://host:8222. If it is set, Check asks there how often the server
	// flushes to the disk; a client can't ask otherwise. "" leaves that unchecked.
	MonitorURL string
	// TLS is used for the connection to a server; nil leaves it to the URL's scheme.
	TLS *tls.Config
	// CallTimeout bounds one control call; each is tried up to 5 times. 0 means 2 s for a server. An embedded queue
	// may have to wait for a processor that is busy with clustering, not for a network: there 0 means 15 s.
	CallTimeout time.Duration

	// Logger takes what the embedded server and the connection have to say, at debug level but for errors; nil
	// for none.
	Logger *slog.Logger
}

// withDefaults replaces zeros by what they stand for.
func (c Config) withDefaults() Config {
	if c.AckWait == 0 {
		c.AckWait = 60 * time.Second
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = c.AckWait / 3
	}
	if c.MaxAckPending == 0 {
		c.MaxAckPending = 1024
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.AttemptsTTL == 0 {
		c.AttemptsTTL = 7 * 24 * time.Hour
	}
	if c.SyncInterval == 0 {
		c.SyncInterval = 5 * time.Second
	}
	if c.Name == "" {
		c.Name = "aerie"
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports the first setting that can't work.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.AckWait < 500*time.Millisecond:
		return fmt.Errorf("natsqueue: AckWait is %v; it must be at least 500ms", c.AckWait)
	case c.Heartbeat < 0 || c.Heartbeat > c.AckWait/3:
		return fmt.Errorf("natsqueue: Heartbeat is %v; it must be at most a third of AckWait (%v), or tasks are delivered twice",
			c.Heartbeat, c.AckWait)
	case c.MaxAckPending < 1:
		return fmt.Errorf("natsqueue: MaxAckPending is %d; it must be at least 1", c.MaxAckPending)
	case c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return fmt.Errorf("natsqueue: Replicas is %d; it must be 1, 3 or 5", c.Replicas)
	case c.JournalTTL < 0 || c.JournalTTL > 0 && c.JournalTTL < time.Minute:
		return fmt.Errorf("natsqueue: JournalTTL is %v; it must be 0 for ever, or at least a minute", c.JournalTTL)
	case c.AttemptsTTL < time.Minute:
		return fmt.Errorf("natsqueue: AttemptsTTL is %v; it must be at least a minute", c.AttemptsTTL)
	case c.SyncInterval < 100*time.Millisecond:
		return fmt.Errorf("natsqueue: SyncInterval is %v; it must be at least 100ms", c.SyncInterval)
	case c.CallTimeout < 0:
		return fmt.Errorf("natsqueue: CallTimeout is %v; it must not be negative", c.CallTimeout)
	case c.CredentialsFile != "" && c.NKeySeedFile != "":
		return errors.New("natsqueue: CredentialsFile and NKeySeedFile are both set; only one can be used")
	}
	return nil
}
