package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// found puts aerie.yaml into a fresh working folder, where it is found without being named.
func found(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile(DefaultFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestA6SecretsAndAddresses: a secret goes to no address from a weaker source, whatever the section and the kind of secret.
func TestA6SecretsAndAddresses(t *testing.T) {
	const secret = "sk-do-not-send-me-there"
	const models = "summaries: {provider: openai, base_url: 'http://evil/v1', model: m}\n"
	for name, c := range map[string]struct {
		file  string
		env   []string
		flags map[string]Flag
		key   string // that the error names; "" if it is well
	}{
		"key of summaries":   {file: models, env: []string{"AERIE_SUMMARIES_API_KEY=" + secret}, key: "summaries.base_url"},
		"key of embeddings":  {file: "embeddings: {provider: openai, base_url: 'http://evil/v1', model: m}", env: []string{"AERIE_EMBEDDINGS_API_KEY=" + secret}, key: "embeddings.base_url"},
		"token":              {file: "server: {url: 'http://evil:7744'}", env: []string{"AERIE_SERVER_TOKEN=" + secret}, key: "server.url"},
		"password":           {file: "state: {url: 'redis://evil'}", env: []string{"AERIE_STATE_PASSWORD=" + secret}, key: "state.url"},
		"key of the store":   {file: "store: {url: 'http://evil'}", env: []string{"AERIE_STORE_API_KEY=" + secret}, key: "store.url"},
		"second address":     {file: "store: {grpc_url: 'evil:50051'}", env: []string{"AERIE_STORE_API_KEY=" + secret, "AERIE_STORE_URL=http://h"}, key: "store.grpc_url"},
		"credentials":        {file: "queue: {url: 'nats://evil'}", env: []string{"AERIE_QUEUE_CREDENTIALS_FILE=/home/me/nats.creds"}, key: "queue.url"},
		"in extra":           {file: models, env: []string{"AERIE_SUMMARIES_EXTRA={token: " + secret + "}"}, key: "summaries.base_url"},
		"in OpenTelemetry's": {file: "telemetry: {otlp_endpoint: 'http://evil:4318'}", env: []string{"OTEL_EXPORTER_OTLP_HEADERS=api-key=" + secret}, key: "telemetry.otlp_endpoint"},
		"flag and variable":  {env: []string{"AERIE_SERVER_URL=http://h"}, flags: map[string]Flag{"server.token": {"--server-token", secret}}, key: "server.url"},
		"flag and file":      {file: models, flags: map[string]Flag{"summaries.api_key": {"--summaries-api-key", secret}}, key: "summaries.base_url"},

		"both of the file":       {file: "summaries: {provider: openai, base_url: 'http://h/v1', model: m, api_key: " + secret + "}"},
		"address is stronger":    {file: models, env: []string{"AERIE_SUMMARIES_API_KEY=" + secret, "AERIE_SUMMARIES_BASE_URL=http://h/v1"}},
		"another section":        {file: models, env: []string{"AERIE_EMBEDDINGS_API_KEY=" + secret}},
		"no secret in extra":     {file: models, env: []string{"AERIE_SUMMARIES_EXTRA={max_tokens: 5}"}},
		"variables both":         {env: []string{"AERIE_SERVER_URL=http://h", "AERIE_SERVER_TOKEN=" + secret}},
		"headers for no address": {env: []string{"OTEL_EXPORTER_OTLP_HEADERS=api-key=" + secret}},
	} {
		t.Run(name, func(t *testing.T) {
			found(t, c.file)
			_, _, err := Load(Options{Env: c.env, Flags: c.flags})
			var e *Error
			switch {
			case c.key == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case c.key == "":
			case !errors.As(err, &e) || e.Key != c.key:
				t.Fatalf("%v, want an error of %s", err, c.key)
			case !strings.Contains(err.Error(), "weaker source") || strings.Contains(err.Error()+e.Hint, secret) || e.Hint == "":
				t.Errorf("%q, hint %q", err, e.Hint)
			}
			if c.file != "" && c.key != "" && c.flags == nil { // whoever names the file trusts it
				if _, _, err := Load(Options{File: DefaultFile, Env: c.env}); err != nil {
					t.Errorf("named: %v", err)
				}
			}
		})
	}
}

// TestA6KeyFiles: a file that was only found names no key file outside its folder, however the path is written.
func TestA6KeyFiles(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	outside := filepath.Join(home, "id_rsa")
	if err := os.WriteFile(outside, []byte("sk-of-the-house\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path    string
		refused bool
	}{
		"absolute": {outside, true}, "home": {"~/id_rsa", true}, "up": {"../id_rsa", true}, "up and down": {"sub/../../id_rsa", true},
		"link": {"link", true}, "link of a folder": {"folder/id_rsa", true}, "not there": {"../gone", true}, "own": {"sub/own", false},
		"own, by its whole path": {"ABS/sub/own", false},
	} {
		t.Run(name, func(t *testing.T) {
			found(t, "")
			dir, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			path := strings.ReplaceAll(c.path, "ABS", dir)
			for _, err := range []error{
				os.Mkdir("sub", 0o700), os.WriteFile("sub/own", []byte("sk-1"), 0o600), os.Symlink(outside, "link"), os.Symlink(home, "folder"),
				os.WriteFile(DefaultFile, []byte("embeddings: {api_key_file: '"+path+"'}"), 0o600),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			_, _, err = Load(Options{})
			if !c.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Key != "embeddings.api_key_file" || !strings.Contains(err.Error(), "outside the folder") || !strings.Contains(e.Hint, "--config") {
				t.Errorf("%v", err)
			}
			if c.path == outside || c.path == "~/id_rsa" || c.path == "link" { // named, or from a stronger source
				for _, o := range []Options{{File: DefaultFile}, {Env: []string{"AERIE_EMBEDDINGS_API_KEY_FILE=" + outside}}} {
					cfg, _, err := Load(o)
					if err != nil || cfg.Embeddings.APIKey.Reveal() != "sk-of-the-house" {
						t.Errorf("trusted: %v", err)
					}
				}
			}
		})
	}
	found(t, "queue: {url: 'nats://h', nkey_file: ../seed}")
	if _, _, err := Load(Options{}); err == nil || !strings.Contains(err.Error(), "queue.nkey_file") {
		t.Errorf("another kind of key: %v", err)
	}
	found(t, "store: {url: 'https://h', ca_file: /etc/ssl/ca.pem}")
	if _, _, err := Load(Options{}); err != nil {
		t.Errorf("a certificate is no secret: %v", err)
	}
}

// TestA6Readers: commands of a file that was only found are not run.
func TestA6Readers(t *testing.T) {
	found(t, `readers: {pdf: "sh -c evil"}`)
	var e *Error
	if _, _, err := Load(Options{}); !errors.As(err, &e) || e.Key != "readers" || !strings.Contains(e.Hint, "--config") {
		t.Errorf("%v", err)
	}
	if cfg, _, err := Load(Options{File: DefaultFile}); err != nil || cfg.Readers["pdf"] == "" {
		t.Errorf("named: %v", err)
	}
}

// TestA6Owner: a file that was only found and belongs to somebody else is not read.
func TestA6Owner(t *testing.T) {
	const me, other = 1000, 4711
	for owner, refused := range map[uint32]bool{me: false, other: true, 0: false} {
		if err := checkOwnerOf("aerie.yaml", owner, me); (err != nil) != refused {
			t.Errorf("of user %d: %v", owner, err)
		} else if e := new(Error); refused && (!errors.As(err, &e) || !strings.Contains(err.Error(), "4711") || !strings.Contains(e.Hint, "--config aerie.yaml")) {
			t.Errorf("%v", err)
		}
	}
	found(t, "corpus: mine")
	if os.Geteuid() == 0 { // only root can give files away
		if err := os.Chown(DefaultFile, other, other); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(Options{}); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("%v", err)
		}
	}
	if cfg, _, err := Load(Options{File: DefaultFile}); err != nil || cfg.Corpus != "mine" {
		t.Errorf("named: %v", err)
	}
}
