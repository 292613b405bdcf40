package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestKeys(t *testing.T) {
	envs, flags := map[string]string{}, map[string]string{}
	for _, k := range Keys() {
		if k.Usage == "" {
			t.Errorf("%s has no usage", k.Name)
		}
		if k.Short() == "" {
			t.Errorf("%q: a field of Config has no key tag", k.Name)
		}
		if other, taken := envs[k.Env()]; taken {
			t.Errorf("%s and %s share the variable %s", k.Name, other, k.Env())
		}
		envs[k.Env()] = k.Name
		if other, taken := flags[k.Flag()]; taken {
			t.Errorf("%s and %s share the flag %s", k.Name, other, k.Flag())
		}
		flags[k.Flag()] = k.Name
	}
	for name := range usage {
		if _, ok := Lookup(name); !ok {
			t.Errorf("usage of %s, which is no key", name)
		}
	}
}

// TestDefaults holds the defaults to the ones that the command line's contract names.
func TestDefaults(t *testing.T) {
	want := map[string]string{
		"corpus": "default", "chunking.tokens": "100",
		"clustering.mode": "raptor", "clustering.seed": "224", "clustering.threshold": "0.1",
		"clustering.reduced_dimensionality": "10", "clustering.max_cluster_tokens": "3500",
		"clustering.target_cluster_size": "0", "clustering.max_clusters": "0",
		"summaries.provider": "extractive", "summaries.base_url": `""`, "summaries.model": `""`,
		"summaries.context_tokens": "8192", "summaries.max_output_tokens": "200", "summaries.temperature": "0",
		"summaries.prompt": `""`, "summaries.timeout": "120s", "summaries.extra": "{}",
		"embeddings.provider": "lexical", "embeddings.batch_items": "64", "embeddings.batch_tokens": "8192",
		"embeddings.query_prefix": `""`, "embeddings.passage_prefix": `""`,
		"build.scope": "corpus", "build.keep_leaves": "true", "build.growth_threshold": "0.1", "build.min_chunks": "5",
		"build.auto": "true", "build.growth": "incremental", "build.stale": "0.2", "build.keep": "1", "build.delete_delay": "60s",
		"build.max_depth": "0", "build.slots": "8", "build.max_attempts": "5", "build.task_timeout": "3600s", "build.max_tokens": "0",
		"build.max_cost": "0", "build.prices": "{}", "readers": "{}", "prices": "{}", "build.schedule": `""`, "build.time_zone": "UTC",
		"limits.requests_per_minute": "0", "limits.input_tokens_per_minute": "0", "limits.output_tokens_per_minute": "0",
		"queue.url": `""`, "state.url": `""`, "store.url": `""`, "store.compat": "[]",
		"server.listen": "127.0.0.1:7744", "server.url": `""`, "worker.listen": "127.0.0.1:7745", "worker.grace": "60s",
		"telemetry.otlp_endpoint": `""`, "telemetry.trace_ratio": "1",
	}
	got := Default().Map()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s = %s, want %s", key, got[key], value)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// TestCheckListen: a listener that others can reach wants a token.
func TestCheckListen(t *testing.T) {
	const token = "0123456789abcdef"
	for _, c := range []struct {
		listen string
		token  Secret
		ok     bool
	}{
		{"127.0.0.1:7744", "", true}, {"localhost:7744", "", true}, {"[::1]:7744", "", true},
		{":7744", "", false}, {"0.0.0.0:7744", "", false}, {"10.0.0.7:7744", "", false}, {"coordinator:7744", "", false},
		{":7744", token, true}, {"0.0.0.0:7744", token, true},
	} {
		err := (&Server{Listen: c.listen, Token: c.token}).CheckListen()
		if (err == nil) != c.ok {
			t.Errorf("%s with token %q: %v", c.listen, c.token.Reveal(), err)
		}
		if err != nil && !strings.Contains(err.Error(), "server.token") {
			t.Errorf("%s: %v", c.listen, err)
		}
	}
	if err := (&Server{Listen: ":7744", TokensFile: "tokens"}).CheckListen(); err != nil {
		t.Errorf("with a tokens file: %v", err)
	}
	if _, _, err := Load(Options{Env: []string{"AERIE_SERVER_TLS_KEY=key.pem"}}); err == nil || !strings.Contains(err.Error(), "server.tls_cert") {
		t.Errorf("a key without a certificate: %v", err)
	}
	if _, _, err := Load(Options{Env: []string{"AERIE_SERVER_TOKEN=guess-me"}}); err == nil || strings.Contains(err.Error(), "guess-me") {
		t.Errorf("a short token: %v", err)
	}
}

// write puts a file into a fresh folder and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := write(t, "a.yaml", "clustering:\n  seed: 1\n  threshold: 0.2\n  max_clusters: 7\n")
	cfg, origins, err := Load(Options{
		File:  file,
		Env:   []string{"AERIE_CLUSTERING_SEED=2", "AERIE_CLUSTERING_THRESHOLD=0.3", "PATH=/bin", "AERIE_CORPUS="},
		Flags: map[string]Flag{"clustering.seed": {Name: "--seed", Value: "3"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		fmt.Sprint(cfg.Clustering.Seed, " ", origins.Of("clustering.seed")),
		fmt.Sprint(cfg.Clustering.Threshold, " ", origins.Of("clustering.threshold")),
		fmt.Sprint(cfg.Clustering.MaxClusters, " ", origins.Of("clustering.max_clusters")),
		fmt.Sprint(cfg.Corpus, " ", origins.Of("corpus")),
	}
	want := []string{"3 --seed", "0.3 AERIE_CLUSTERING_THRESHOLD", "7 " + file + ":4", "default default"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestEveryKeyFromEverywhere sets each key through the file, the environment and a flag, to a value that isn't its
// default, and looks for it and its origin in the settings.
func TestEveryKeyFromEverywhere(t *testing.T) {
	other := map[string]string{
		"corpus": "mine", "clustering.mode": "kmeans", "clustering.threshold": "0.5", "clustering.memory_limit": "3GiB",
		"summaries.provider": "openai", "summaries.base_url": "http://h:1/v1", "summaries.model": "m",
		"summaries.prompt": "Sum up: {chunks}", "summaries.context_tokens": "777", "summaries.temperature": "0.5", "summaries.extra": `{"top_p":0.5}`,
		"embeddings.provider": "openai", "embeddings.base_url": "http://h:1/v1", "embeddings.model": "e",
		"embeddings.extra": `{"dimensions":256}`, "embeddings.query_prefix": "query:", "embeddings.passage_prefix": "passage:",
		"summaries.embeddings.provider": "openai", "summaries.embeddings.base_url": "http://h:2/v1", "summaries.embeddings.model": "e",
		"build.scope": "document", "build.keep_leaves": "false", "build.growth_threshold": "0.3", "build.auto": "false", "build.growth": "full", "build.stale": "0.5", "build.keep": "0", "build.delete_delay": "300s", "build.max_cost": "2.5",
		"build.prices":   `{"m":{"input":0.15,"output":0.6,"currency":"EUR"}}`,
		"prices":         `{"n":{"input":0.15,"output":0.6,"currency":"EUR","cached_input":0.1,"batch_input":0.07,"batch_output":0.3}}`,
		"readers":        `{"pdf":"pdftotext - -"}`,
		"build.schedule": "30 2 * * mon-fri", "build.time_zone": "Europe/Berlin",
		"queue.url": "nats://h:4222", "state.url": "redis://h:6379", "store.url": "https://h", "store.grpc_url": "h:50051",
		"store.compat": `["helix","llama_index"]`, "server.listen": "0.0.0.0:1", "server.url": "http://h:7744",
		"queue.replicas": "3", "queue.monitor_url": "http://h:8222", "queue.ack_wait": "9s", "queue.max_in_hand": "99", "state.user": "u", "store.tenant": "t", "store.consistency": "ALL",
		"build.max_buried": "0.25", "build.task_timeout": "7s", "server.lease": "8s", "server.tls_cert": "/t/cert.pem", "server.tls_key": "/t/key.pem", "server.audit_log": "/t/audit.jsonl", "worker.listen": ":2", "worker.grace": "5s", "telemetry.otlp_endpoint": "http://h:4318", "telemetry.trace_ratio": "0.25", "summaries.timeout": "5s", "embeddings.timeout": "6s",
	}
	env, flags := []string{}, map[string]Flag{}
	root := map[string]any{}
	want := map[string]string{}
	for _, k := range Keys() {
		if k.Secret || strings.HasSuffix(k.Name, "_file") {
			continue // TestSecrets
		}
		value, ok := other[k.Name]
		if !ok {
			value = "77" // the plain numbers
		}
		want[k.Name] = value
		env = append(env, k.Env()+"="+value)
		flags[k.Name] = Flag{Name: "--" + k.Flag(), Value: value}
		section := root
		parts := strings.Split(k.Name, ".")
		for _, p := range parts[:len(parts)-1] {
			if section[p] == nil {
				section[p] = map[string]any{}
			}
			section = section[p].(map[string]any)
		}
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil || strings.HasSuffix(k.Name, "listen") || strings.HasSuffix(value, ":") || strings.Contains(value, "{chunks}") {
			v = value
		}
		section[parts[len(parts)-1]] = v
	}
	text, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "all.yaml", string(text))
	for name, o := range map[string]Options{
		"file": {File: file}, "environment": {Env: env}, "flag": {Flags: flags},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, origins, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			got := cfg.Map()
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s = %s, want %s", key, got[key], value)
				}
				if o := origins.Of(key); string(o.Source) != name {
					t.Errorf("%s comes from %s, want %s", key, o.Source, name)
				}
			}
		})
	}
}

func TestTemplateIsTheDefaults(t *testing.T) {
	cfg, _, err := Load(Options{File: write(t, "aerie.yaml", Template())})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default().Map(), cfg.Map()); diff != "" {
		t.Errorf("(-default +template)\n%s", diff)
	}
	for _, k := range Keys() {
		if !strings.Contains(Template(), k.Usage) {
			t.Errorf("no comment for %s", k.Name)
		}
	}
}

func TestFileForms(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             "",
		"comments":          "# nothing\n",
		"null section":      "clustering:\n  # seed: 3\nbuild:\n",
		"null value":        "clustering: {seed: null}\n",
		"quoted number":     "clustering: {seed: \"3\"}\n",
		"alias":             "clustering: &c {seed: 3}\n",
		"byte order mark":   "\ufeffclustering: {seed: 3}\n",
		"carriage returns":  "clustering:\r\n  seed: 3\r\n",
		"number as a model": "summaries: {model: 123}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Load(Options{File: write(t, "a.yaml", text)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	const secret = "sk-do-not-show-me"
	dir := t.TempDir()
	for name, text := range map[string]string{
		"key": secret + "\n", "blank": " \n", "two": "a\nb\n",
		"with-file.yaml": "summaries: {api_key_file: key}\n",
		"both.yaml":      "summaries: {api_key: x, api_key_file: key}\n",
		"blank.yaml":     "embeddings: {api_key_file: blank}\n",
		"two.yaml":       "embeddings: {api_key_file: two}\n",
		"gone.yaml":      "store: {api_key_file: gone}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, origins, err := Load(Options{
		File: filepath.Join(dir, "with-file.yaml"),
		Env: []string{"AERIE_EMBEDDINGS_API_KEY=" + secret, "AERIE_SERVER_TOKEN=" + secret, "AERIE_QUEUE_URL=nats://me:" + secret + "@h:4222",
			`AERIE_SUMMARIES_EXTRA={"api_key": "` + secret + `", "top_p": 1}`},
		Flags: map[string]Flag{"store.api_key": {Name: "--store-api-key", Value: secret}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{cfg.Summaries.APIKey.Reveal(), cfg.Embeddings.APIKey.Reveal(), cfg.Store.APIKey.Reveal(), cfg.Server.Token.Reveal()} {
		if got != secret {
			t.Errorf("a key is %q", got)
		}
	}
	for _, s := range cfg.Settings(origins) {
		if strings.Contains(s.Text()+s.Origin, secret) {
			t.Errorf("%s shows the secret: %s", s.Key, s.Text())
		}
	}
	if shows := fmt.Sprintf("%v %+v %#v", *cfg, *cfg, *cfg); strings.Contains(strings.ReplaceAll(shows, "me:"+secret, ""), "APIKey:"+secret) || strings.Contains(shows, "Token:"+secret) {
		t.Error("printing the configuration shows a key")
	}
	for _, v := range cfg.Map() {
		if strings.Contains(v, secret) {
			t.Errorf("the map shows the secret: %s", v)
		}
	}
	for file, want := range map[string]string{
		"both.yaml": "keep one of them", "blank.yaml": "on one line", "two.yaml": "on one line", "gone.yaml": "can't be read",
	} {
		if _, _, err := Load(Options{File: filepath.Join(dir, file)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	// The stronger source wins, whichever of the two forms it uses.
	cfg, _, err = Load(Options{
		File: filepath.Join(dir, "with-file.yaml"),
		Env:  []string{"AERIE_SUMMARIES_API_KEY=stronger"},
	})
	if err != nil || cfg.Summaries.APIKey.Reveal() != "stronger" {
		t.Errorf("the environment's key lost to the file's key file: %v", err)
	}
	for _, wrong := range []string{"nats://u:" + secret + "@h:notaport", "u:" + secret + "@h:4222", "http://u:" + secret + "@h", "nats://u:" + secret + "@"} {
		_, _, err := Load(Options{Flags: map[string]Flag{"queue.url": {Name: "--queue-url", Value: wrong}}})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
}

func TestTypes(t *testing.T) {
	file := write(t, "t.yaml", "summaries:\n  timeout: 90s\nclustering:\n  memory_limit: 2 GB\nbuild:\n  prices:\n    gpt: {input: 1, output: 2}\n")
	cfg, _, err := Load(Options{File: file, Flags: map[string]Flag{"store.compat": {Name: "--compat", Value: "helix, llama_index"}}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Summaries.Timeout != 90*time.Second || cfg.Clustering.MemoryLimit != 2_000_000_000 {
		t.Errorf("timeout %v, memory %v", cfg.Summaries.Timeout, cfg.Clustering.MemoryLimit)
	}
	if diff := cmp.Diff(map[string]Price{"gpt": {Input: 1, Output: 2, Currency: "USD"}}, cfg.Build.Prices); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"helix", "llama_index"}, cfg.Store.Compat); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPricesOfBothPlaces(t *testing.T) {
	file := write(t, "t.yaml", "prices:\n  new: {input: 2, output: 8, cached_input: 1, batch_input: 1, batch_output: 4, currency: EUR}\n"+
		"build:\n  max_cost: 5\n  prices:\n    old: {input: 1, output: 2, currency: EUR}\nsummaries: {provider: openai, base_url: \"http://127.0.0.1:1/v1\", model: new}\n")
	cfg, _, err := Load(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Price{
		"new": {Input: 2, Output: 8, CachedInput: 1, BatchInput: 1, BatchOutput: 4, Currency: "EUR"}, "old": {Input: 1, Output: 2, Currency: "EUR"},
	}
	if diff := cmp.Diff(want, cfg.AllPrices()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
