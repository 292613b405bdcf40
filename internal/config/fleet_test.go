package config

import (
	"strings"
	"testing"
)

// TestFleetKeysRefused gives the keys of daemons and their places values that are wrong.
func TestFleetKeysRefused(t *testing.T) {
	for _, c := range []struct {
		yaml string
		want []string
	}{
		{"queue: {ack_wait: 499ms}", []string{"queue.ack_wait is 499ms (FILE:1); it must be at least 500ms"}},
		{"queue: {ack_wait: 60}", []string{"queue.ack_wait", "a duration such as 90s"}},
		{"queue: {max_in_hand: 0}", []string{"queue.max_in_hand is 0 (FILE:1); it must be at least 1"}},
		{"queue: {replicas: 2}", []string{"queue.replicas is 2 (FILE:1); it must be 1, 3 or 5"}},
		{"queue: {replicas: 0}", []string{"queue.replicas is 0"}},
		{"queue: {credentials_file: a.creds, nkey_file: b.nk}", []string{"queue.nkey_file", "queue.credentials_file is set too"}},
		{"queue: {cert_file: a.pem}", []string{"queue.key_file is not set", "queue.cert_file is set and needs it"}},
		{"queue: {key_file: a.pem}", []string{"queue.cert_file is not set", "queue.key_file is set and needs it"}},
		{"queue: {url: 'nats://a:4222,http://b'}", []string{"queue.url", `the scheme "http" is not one of`}},
		{"queue: {url: 'nats://:4222'}", []string{"queue.url", "the host is missing"}},
		{"state: {url: 'redis://u:secret@h:99999'}", []string{"state.url", "the port"}},
		{"state: {cert_file: a.pem}", []string{"state.key_file is not set"}},
		{"state: {password_file: /nowhere/password}", []string{"state.password_file", "/nowhere/password"}},
		{"store: {key_file: a.pem}", []string{"store.cert_file is not set"}},
		{"store: {replicas: -1}", []string{"store.replicas is -1 (FILE:1); it must be 0 (the server's default) or more"}},
		{"store: {consistency: MOST}", []string{`store.consistency is "MOST" (FILE:1)`, "ONE, QUORUM or ALL"}},
		{"store: {consistency: QORUM}", []string{"did you mean QUORUM?"}},
		{"store: {compat: [helix, llamaindex]}", []string{`store.compat is "llamaindex"`, "did you mean llama_index?"}},
		{"store: {grpc_url: 'http://h:50051'}", []string{"store.grpc_url", "host:port"}},
		{"server: {lease: 999ms}", []string{"server.lease is 999ms (FILE:1); it must be at least 1s"}},
		{"server: {token: guessed}", []string{"server.token", "at least 16 characters"}},
		{"server: {token_file: /nowhere/token}", []string{"server.token_file", "/nowhere/token"}},
		{"build: {max_buried: 1.01}", []string{"build.max_buried is 1.01 (FILE:1); it must be from 0 to 1"}},
		{"build: {max_buried: -0.1}", []string{"build.max_buried is -0.1"}},
		{"build: {max_buried: .nan}", []string{"build.max_buried"}},
	} {
		t.Run(c.yaml, func(t *testing.T) {
			file := write(t, "bad.yaml", c.yaml)
			_, _, err := Load(Options{File: file})
			checkSentence(t, err, file, c.want)
			for _, secret := range []string{"guessed", "secret"} {
				if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), file, ""), secret) { // the folder has the test's name
					t.Errorf("the error tells a secret: %v", err)
				}
			}
		})
	}
}

// TestFleetKeysTaken: the edges of the ranges are fine.
func TestFleetKeysTaken(t *testing.T) {
	for _, yaml := range []string{
		"queue: {ack_wait: 500ms, max_in_hand: 1, replicas: 5, cert_file: a.pem, key_file: b.pem}",
		"queue: {url: 'nats://a:4222,tls://b:4222'}\nstate: {url: 'rediss://a,b:6380'}\nstore: {grpc_url: 'h:50051', consistency: ALL, compat: [llama_index, helix]}",
		"server: {lease: 1s, token: 0123456789abcdef}\nbuild: {max_buried: 1}",
	} {
		if _, _, err := Load(Options{File: write(t, "good.yaml", yaml)}); err != nil {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}

// TestFleetNeedsAllPlaces: daemons on several machines share nothing but these.
func TestFleetNeedsAllPlaces(t *testing.T) {
	c := Default()
	for _, place := range []struct {
		set  func()
		want string // in the error before it is set
	}{
		{func() { c.State.URL = "redis://h" }, "queue.url, state.url, store.url must be set"},
		{func() { c.Queue.URL = "nats://h" }, "queue.url, store.url must be set"},
		{func() { c.Store.URL = "http://h" }, "store.url must be set"},
	} {
		err := c.Fleet()
		if err == nil {
			t.Fatal("it is taken")
		}
		checkSentence(t, err, "", []string{place.want})
		place.set()
	}
	if err := c.Fleet(); err != nil {
		t.Error(err)
	}
}
