package redisstate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]place{
		"redis://h":                           {addrs: []string{"h:6379"}},
		"REDIS://h:1/":                        {addrs: []string{"h:1"}},
		"rediss://h:6380/3":                   {tls: true, addrs: []string{"h:6380"}, db: 3},
		"redis://u:p@h":                       {user: "u", password: "p", addrs: []string{"h:6379"}},
		"redis://:p%2F%3A%40@h":               {password: "p/:@", addrs: []string{"h:6379"}},
		"redis://u:a@b:c@h":                   {user: "u", password: "a@b:c", addrs: []string{"h:6379"}},
		"redis://[::1]:7":                     {addrs: []string{"[::1]:7"}},
		"redis://[::1]":                       {addrs: []string{"[::1]:6379"}},
		"redis://a:1,b:2, c":                  {addrs: []string{"a:1", "b:2", "c:6379"}},
		"rediss://s1:26379,s2:26379/mymaster": {tls: true, addrs: []string{"s1:26379", "s2:26379"}, master: "mymaster"},
	} {
		got, err := parseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(place{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	ok := Config{URL: "redis://h"}
	for name, test := range map[string]struct {
		change func(*Config)
		words  string
	}{
		"no URL":              {func(c *Config) { c.URL = "" }, "the URL is missing"},
		"no scheme":           {func(c *Config) { c.URL = "h:6379" }, "must begin with redis://"},
		"another scheme":      {func(c *Config) { c.URL = "nats://h" }, "must begin with redis://"},
		"no host":             {func(c *Config) { c.URL = "redis://" }, "the host is missing"},
		"a port only":         {func(c *Config) { c.URL = "redis://:6379" }, "the host is missing"},
		"one host is missing": {func(c *Config) { c.URL = "redis://a,,b" }, "the host is missing"},
		"bare IPv6":           {func(c *Config) { c.URL = "redis://::1" }, "no host:port"},
		"port 0":              {func(c *Config) { c.URL = "redis://h:0" }, "port 0 is not from 1 to 65535"},
		"port of letters":     {func(c *Config) { c.URL = "redis://h:s3cret" }, "no host:port"},
		"options":             {func(c *Config) { c.URL = "redis://:s3cret@h?db=1" }, "takes no options"},
		"escape":              {func(c *Config) { c.URL = "redis://:s3cret%zz@h" }, "write %25"},
		"database -1":         {func(c *Config) { c.URL = "redis://h/-1" }, "neither the number of a database"},
		"database a/b":        {func(c *Config) { c.URL = "redis://h/a/b" }, "neither the number of a database"},
		"CA without TLS":      {func(c *Config) { c.CAFile = "ca.pem" }, "write rediss://"},
		"name without TLS":    {func(c *Config) { c.ServerName = "x" }, "write rediss://"},
		"certificate, no key": {func(c *Config) { c.URL, c.CertFile = "rediss://h", "c" }, "must be given together"},
		"key, no certificate": {func(c *Config) { c.URL, c.KeyFile = "rediss://h", "c" }, "must be given together"},
		"prefix":              {func(c *Config) { c.Prefix = "a{b" }, "braces"},
		"timeout":             {func(c *Config) { c.Timeout = -1 }, "must not be below 0"},
		"patience":            {func(c *Config) { c.Patience = time.Hour }, "must be at most 5m"},
		"TTL":                 {func(c *Config) { c.BarrierTTL = time.Second }, "below one minute"},
		"connections":         {func(c *Config) { c.Connections = -1 }, "below 0"},
	} {
		c := ok
		test.change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v, want that it says %q", name, err, test.words)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error may tell a password: %v", name, err)
		}
		if _, err := Connect(t.Context(), c); err == nil {
			t.Errorf("%s: Connect takes it", name)
		}
	}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
}

// FuzzParseURL: nothing panics, and what is taken has a server with a port.
func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"redis://u:p@h:1,[::1]:2/3", "rediss://h/m", "redis://@", "redis://%", "redis://h:/", "redis://[", "://", "redis://\x00", "redis://::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseURL(text)
		if err != nil {
			return
		}
		if len(p.addrs) == 0 || p.db < 0 || p.db > 0 && p.master != "" {
			t.Errorf("%q: %+v", text, p)
		}
		for _, addr := range p.addrs {
			if again, err := parseHost(addr); err != nil || again != addr {
				t.Errorf("%q: server %q reads as %q, %v", text, addr, again, err)
			}
		}
	})
}
