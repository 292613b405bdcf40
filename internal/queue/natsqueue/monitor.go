package natsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aerie-rag/aerie/internal/queue"
)

// checkFlush asks the server's monitoring address whether what was confirmed survives a power cut: answers that were paid for are in
// its files alone. Streams with replicas survive the loss of one server's unflushed writes; one alone must flush before it confirms.
func (c *Conn) checkFlush(ctx context.Context) error {
	if c.cfg.MonitorURL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	address := strings.TrimSuffix(c.cfg.MonitorURL, "/") + "/varz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("natsqueue: queue.monitor_url: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("natsqueue: queue.monitor_url: %w: %w", queue.ErrUnavailable, err)
	}
	defer res.Body.Close()
	var about struct {
		JetStream struct {
			Config *struct {
				SyncAlways   bool          `json:"sync_always"`
				SyncInterval time.Duration `json:"sync_interval"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err == nil {
		err = json.Unmarshal(data, &about)
	}
	if err != nil || res.StatusCode != http.StatusOK || about.JetStream.Config == nil {
		return fmt.Errorf("natsqueue: queue.monitor_url: %s answers %s, and not as the monitoring side of a NATS server with JetStream does; "+
			"it must be such as http://host:8222", redacted(address), res.Status)
	}
	if f := about.JetStream.Config; !f.SyncAlways && c.cfg.Replicas < 3 {
		return fmt.Errorf("%w: the server flushes to the disk every %v, and a power cut takes what it confirmed since, answers that were paid for among it; "+
			"set `sync_interval: always` in its jetstream section, or queue.replicas to 3", ErrMismatch, f.SyncInterval)
	}
	return nil
}
