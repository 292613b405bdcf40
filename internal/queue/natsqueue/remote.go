package natsqueue

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// Connect returns a client of a remote server, such as nats://host:4222; several addresses are separated by
// commas. It doesn't wait for the server: calls are queue.ErrUnavailable until it is there, and the connection is tried
// for ever. Only a mistake in the configuration is an error.
func Connect(url string, cfg Config) (*Conn, error) {
	if url == "" {
		return nil, fmt.Errorf("natsqueue: the server's URL is empty")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	inbox, err := inboxPrefix(url, cfg)
	if err != nil {
		return nil, err
	}
	options := []nats.Option{nats.RetryOnFailedConnect(true), nats.CustomInboxPrefix(inbox)}
	if cfg.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(cfg.CredentialsFile))
	}
	if cfg.NKeySeedFile != "" {
		key, err := nats.NkeyOptionFromSeed(cfg.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("natsqueue: nkey seed file %s: %w", cfg.NKeySeedFile, err)
		}
		options = append(options, key)
	}
	if cfg.TLS != nil {
		options = append(options, nats.Secure(cfg.TLS))
	}
	return newConn(url, cfg, nil, options...)
}
