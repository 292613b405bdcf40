package weaviate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestConfigIsChecked(t *testing.T) {
	good := Config{URL: "http://localhost:8080"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"URL is missing":       func(c *Config) { c.URL = "" },
		"must look like":       func(c *Config) { c.URL = "localhost:8080" },
		"must look like http":  func(c *Config) { c.URL = "ftp://x" },
		"no user and password": func(c *Config) { c.URL = "http://u:s3cret@host" },
		"no path":              func(c *Config) { c.URL = "http://host/v1" },
		"must be host:port":    func(c *Config) { c.GRPC = "host" },
		"host:port, such as":   func(c *Config) { c.GRPC = "grpc://host:1/x" },
		"gRPC address":         func(c *Config) { c.GRPC = "ftp://host:1" },
		"write https://":       func(c *Config) { c.CAFile = "ca.pem" },
		"given together":       func(c *Config) { c.URL, c.CertFile = "https://h", "c.pem" },
		"a capital letter":     func(c *Config) { c.Prefix = "aerie" },
		"the tenant":           func(c *Config) { c.Tenant = "a b" },
		"replication factor":   func(c *Config) { c.Replicas = -1 },
		"ONE, QUORUM or ALL":   func(c *Config) { c.Consistency = "quorum" },
		"metadata properties":  func(c *Config) { c.MaxMetadata = 1001 },
		"batch size":           func(c *Config) { c.BatchBytes = 1 },
		"writers":              func(c *Config) { c.Writers = 65 },
		"readers":              func(c *Config) { c.Readers = -1 },
		"memory of a spool":    func(c *Config) { c.SpoolBytes = -1 },
		"must not be below 0":  func(c *Config) { c.Timeout = -time.Second },
		"helix or llama_index": func(c *Config) { c.Compat = []string{"haystack"} },
	} {
		c := good
		change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: %v, want an error with %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		url, grpc string
		want      place
	}{
		{"http://h", "", place{false, "h:8080", false, "h:50051"}},
		{"http://h:80/", "", place{false, "h:80", false, "h:50051"}},
		{"https://h", "", place{true, "h:443", true, "h:443"}},
		{"https://h", "g:9", place{true, "h:443", true, "g:9"}},
		{"https://h", "grpc://g:9", place{true, "h:443", false, "g:9"}},
		{"http://[::1]:8080", "grpcs://[::1]:9", place{false, "[::1]:8080", true, "[::1]:9"}},
	} {
		got, err := Config{URL: test.url, GRPC: test.grpc}.place()
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(test.want, got, cmp.AllowUnexported(place{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s, %s (-want +got):\n%s", test.url, test.grpc, d)
		}
	}
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{"1.27.0": true, "1.35.2": true, "2.0": true, "1.26.9": false, "0.9": false, "": false, "x": false, "1.35.2-rc.0": true} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("checkVersion(%q): %v", version, err)
		}
	}
}
