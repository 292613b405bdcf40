package config

import (
	"errors"
	"strings"
	"testing"
)

// TestRefused gives each key values that are wrong, and looks in the sentence for the key, the place and the range.
func TestRefused(t *testing.T) {
	openai := "{provider: openai, base_url: http://h/v1, model: m, "
	for _, c := range []struct {
		yaml string
		want []string
	}{
		{"corpus: a.b", []string{`corpus is "a.b" (FILE:1)`, "letters"}},
		{"corpus: ''", []string{`corpus is ""`}},
		{"chunking: {tokens: 7}", []string{"chunking.tokens is 7 (FILE:1); it must be from 8 to 8192"}},
		{"chunking: {tokens: 8193}", []string{"chunking.tokens is 8193", "8192"}},
		{"chunking: {tokens: many}", []string{`chunking.tokens is "many" (FILE:1); it must be a whole number`}},
		{"chunking: {tokens: 1.5}", []string{"a whole number"}},
		{"chunking: {tokens: [1]}", []string{"chunking.tokens", "a whole number"}},
		{"chunking: 100", []string{"chunking (FILE:1) must hold keys", "{tokens: 100}"}},
		{"clustering: {mode: rapter}", []string{`clustering.mode is "rapter"`, "raptor, reference, flat or kmeans", "did you mean raptor?"}},
		{"clustering: {seed: -1}", []string{"clustering.seed", "not negative"}},
		{"clustering: {threshold: 0}", []string{"clustering.threshold is 0", "above 0 and below 1"}},
		{"clustering: {threshold: 1}", []string{"clustering.threshold is 1", "above 0 and below 1"}},
		{"clustering: {threshold: .nan}", []string{"clustering.threshold"}},
		{"clustering: {reduced_dimensionality: 0}", []string{"clustering.reduced_dimensionality is 0", "at least 1"}},
		{"clustering: {max_cluster_tokens: 0}", []string{"clustering.max_cluster_tokens is 0", "at least 1"}},
		{"clustering: {target_cluster_size: 1}", []string{"clustering.target_cluster_size is 1", "0 (the token cap decides) or at least 2"}},
		{"clustering: {max_clusters: 1}", []string{"clustering.max_clusters is 1 (FILE:1); it must be 0 (no limit) or at least 2"}},
		{"clustering: {max_clusters: -2}", []string{"clustering.max_clusters is -2", "at least 2"}},
		{"clustering: {memory_limit: plenty}", []string{"clustering.memory_limit", "4GB"}},
		{"clustering: {memory_limit: -1}", []string{"clustering.memory_limit is -1", "or more"}},
		{"summaries: {provider: ollama}", []string{"summaries.provider", "extractive or openai"}},
		{"summaries: {provider: openai}", []string{"summaries.base_url is not set", "http://127.0.0.1:11434/v1"}},
		{"summaries: {provider: openai, base_url: http://h/v1}", []string{"summaries.model is not set"}},
		{"summaries: {base_url: 127.0.0.1:11434/v1}", []string{"the scheme is missing", "such as http://127.0.0.1:11434/v1"}},
		{"summaries: {base_url: localhost/v1}", []string{"the scheme is missing"}},
		{"summaries: {base_url: ftp://h}", []string{`the scheme "ftp" is not one of http, https`}},
		{"summaries: {base_url: 'http://'}", []string{"the host is missing"}},
		{"summaries: {base_url: 'http://h:99999'}", []string{"the port"}},
		{"summaries: {prompt: Sum up}", []string{"summaries.prompt", "{chunks} once", "0 times"}},
		{"summaries: {prompt: '{chunks} {chunks}'}", []string{"2 times"}},
		{"summaries: {context_tokens: 200}", []string{"summaries.context_tokens is 200", "at least 264", "max_output_tokens (200)"}},
		{"summaries: {context_tokens: 0}", []string{"summaries.context_tokens is 0"}},
		{"summaries: {max_output_tokens: 0}", []string{"summaries.max_output_tokens is 0", "at least 1"}},
		{"summaries: {max_output_tokens: 9000}", []string{"summaries.context_tokens is 8192"}},
		{"summaries: {temperature: 2.1}", []string{"summaries.temperature is 2.1", "from 0 to 2"}},
		{"summaries: {temperature: -1}", []string{"from 0 to 2"}},
		{"summaries: {timeout: 120}", []string{"summaries.timeout", "a duration such as 90s"}},
		{"summaries: {timeout: 0s}", []string{"summaries.timeout is 0s", "at least 1s"}},
		{"summaries: {extra: {stream: true}}", []string{"summaries.extra holds \"stream\""}},
		{"summaries: {extra: 3}", []string{"summaries.extra", "a map"}},
		{"summaries: {embeddings: {base_url: 'http://h'}}", []string{"summaries.embeddings.provider is not set"}},
		{"summaries: {embeddings: {provider: openai}}", []string{"summaries.embeddings.base_url is not set"}},
		{"summaries: {embeddings: {provider: none}}", []string{"lexical or openai"}},
		{"embeddings: {provider: bert}", []string{"embeddings.provider", "lexical or openai"}},
		{"embeddings: {provider: openai}", []string{"embeddings.base_url is not set"}},
		{"embeddings: {batch_items: 0}", []string{"embeddings.batch_items is 0", "at least 1"}},
		{"embeddings: {batch_tokens: 0}", []string{"embeddings.batch_tokens is 0", "at least 1"}},
		{"embeddings: {timeout: 1ms}", []string{"embeddings.timeout is 1ms", "at least 1s"}},
		{"embeddings: {extra: {input: x}}", []string{"embeddings.extra"}},
		{"build: {scope: documents}", []string{`build.scope is "documents"`, "corpus or document", "did you mean document?"}},
		{"build: {keep_leaves: false}", []string{"build.keep_leaves is false", "unless build.scope is document"}},
		{"build: {keep_leaves: yes please}", []string{"true or false"}},
		{"build: {growth_threshold: 0}", []string{"build.growth_threshold is 0", "above 0"}},
		{"build: {growth: slow}", []string{`build.growth is "slow"`, "incremental or full"}},
		{"build: {stale: 1}", []string{"build.stale is 1", "below 1"}},
		{"build: {keep: 2}", []string{"build.keep is 2", "0 or 1"}},
		{"build: {stale: .nan}", []string{"build.stale"}},
		{"build: {growth_threshold: .inf}", []string{"build.growth_threshold"}},
		{"build: {min_chunks: 1}", []string{"build.min_chunks is 1", "at least 2"}},
		{"build: {max_depth: -1}", []string{"build.max_depth is -1", "0 (no limit) or more"}},
		{"build: {slots: 0}", []string{"build.slots is 0", "from 1"}},
		{"build: {max_attempts: 0}", []string{"build.max_attempts is 0", "at least 1"}},
		{"build: {task_timeout: 1ms}", []string{"build.task_timeout is 1ms", "at least 1s"}},
		{"build: {max_tokens: -1}", []string{"build.max_tokens is -1", "0 (no budget) or more"}},
		{"build: {max_cost: -0.5}", []string{"build.max_cost is -0.5", "or more"}},
		{"build: {max_cost: 1}\nsummaries: " + openai + "}", []string{"build.max_cost is 1", `price of "m"`}},
		{"build: {prices: {m: {input: -1}}}", []string{"build.prices", `"m"`, "0 or more"}},
		{"build: {prices: {m: {input: cheap}}}", []string{"build.prices", "a number"}},
		{"build: {prices: {m: {inputs: 1}}}", []string{"did you mean \"input\"?"}},
		{"prices: {m: {batch_output: -1}}", []string{"prices of", `"m"`, "0 or more"}},
		{"prices: {m: {batch_input: 1, batch_output: .inf}}", []string{"prices", `"m"`, "a number"}},
		{"prices: {m: {input: 1, output: 2, batch_input: 0.5}}", []string{"prices of", `"m"`, "no batch_output", "cost nothing"}},
		{"prices: {m: {input: 1, output: 2, batch_output: 0.5}}", []string{"prices of", `"m"`, "no batch_input", "cost nothing"}},
		{"prices: {m: {cached: 1}}", []string{`"cached"`, "cached_input"}},
		{"prices: {m: {input: 1, currency: usd}}", []string{"prices of", "three capital letters"}},
		{"prices: {m: {input: 1}}\nbuild: {prices: {m: {input: 1}}}", []string{"build.prices", `"m"`, "keep the one in prices"}},
		{"prices: {m: {input: 1, currency: EUR}}\nbuild: {prices: {n: {input: 1}}}", []string{"build.prices has USD", "EUR", "one currency"}},
		{"build: {prices: {m: 1}}", []string{"build.prices", "a map such as"}},
		{"build: {prices: {m: {currency: dollars}}}", []string{"three capital letters"}},
		{"build: {prices: {m: {currency: USD}, n: {currency: EUR}}}", []string{"one currency"}},
		{"build: {schedule: '0 25 * * *'}", []string{"build.schedule", "its hour"}},
		{"build: {schedule: '@daily'}", []string{"five fields"}},
		{"build: {schedule: '0 0 * * fri-mon'}", []string{"its day of week"}},
		{"build: {time_zone: Mars}", []string{"build.time_zone", "Europe/Berlin"}},
		{"limits: {requests_per_minute: -1}", []string{"limits.requests_per_minute is -1", "or more"}},
		{"limits: {input_tokens_per_minute: -1}", []string{"limits.input_tokens_per_minute is -1"}},
		{"limits: {output_tokens_per_minute: -1}", []string{"limits.output_tokens_per_minute is -1"}},
		{"queue: {url: localhost:4222}", []string{"queue.url", "nats://localhost:4222"}},
		{"queue: {url: 'http://h'}", []string{"queue.url", "nats"}},
		{"state: {url: 'h:6379'}", []string{"state.url", "redis://h:6379"}},
		{"store: {url: h}", []string{"store.url", "http://h"}},
		{"store: {grpc_url: h}", []string{"store.grpc_url", "host:port"}},
		{"store: {compat: [haystack]}", []string{"store.compat", "helix or llama_index"}},
		{"server: {listen: here}", []string{"server.listen", "host:port"}},
		{"server: {url: h:1}", []string{"server.url"}},
		{"worker: {listen: 'h:99999'}", []string{"worker.listen"}},
		{"worker: {grace: 0s}", []string{"worker.grace is 0s"}},
		{"telemetry: {otlp_endpoint: 'h:4318'}", []string{"telemetry.otlp_endpoint", "scheme is missing"}},
		{"telemetry: {trace_ratio: 0}", []string{"telemetry.trace_ratio is 0", "above 0"}},
		{"telemetry: {trace_ratio: 1.5}", []string{"telemetry.trace_ratio is 1.5"}},
		// Keys, and what isn't a file of keys.
		{"\nclustering:\n  max_cluster_token: 3", []string{"clustering.max_cluster_token is not a key (FILE:3); did you mean clustering.max_cluster_tokens?"}},
		{"clusterin: {seed: 1}", []string{"clusterin is not a key", "did you mean clustering?"}},
		{"scope: corpus", []string{"did you mean build.scope?"}},
		{"clustering: {slots: 1}", []string{"did you mean build.slots?"}},
		{"summaries: {embeddings: {modle: x}}", []string{"did you mean summaries.embeddings.model?"}},
		{"corpus: a\ncorpus: b", []string{"corpus is set twice (FILE:2)", "line 1"}},
		{"- a", []string{"must hold keys"}},
		{"corpus: [", []string{"is not YAML"}},
		{"corpus: a\n---\ncorpus: b", []string{"more than one YAML document"}},
	} {
		t.Run(c.yaml, func(t *testing.T) {
			file := write(t, "bad.yaml", c.yaml)
			_, _, err := Load(Options{File: file})
			checkSentence(t, err, file, c.want)
		})
	}
}

// checkSentence holds an error to be one line of class *Error that contains the wanted parts.
func checkSentence(t *testing.T, err error, file string, want []string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want an *Error", err)
	}
	if strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("not one sentence: %q", err)
	}
	for _, w := range want {
		if w = strings.ReplaceAll(w, "FILE", file); !strings.Contains(err.Error(), w) {
			t.Errorf("error is\n  %v\nwhich doesn't hold\n  %s", err, w)
		}
	}
}

func TestRefusedElsewhere(t *testing.T) {
	flag := func(key, name, value string) Options {
		return Options{Flags: map[string]Flag{key: {Name: name, Value: value}}}
	}
	for name, c := range map[string]struct {
		options Options
		want    []string
	}{
		"file that isn't there": {Options{File: "/nowhere/aerie.yaml"}, []string{"/nowhere/aerie.yaml", "no such file"}},
		"misspelt variable":     {Options{Env: []string{"AERIE_CLUSTERING_SEEDS=1"}}, []string{"AERIE_CLUSTERING_SEEDS is not known; did you mean AERIE_CLUSTERING_SEED?"}},
		"variable out of range": {Options{Env: []string{"AERIE_CLUSTERING_MAX_CLUSTERS=1"}}, []string{"clustering.max_clusters is 1 (AERIE_CLUSTERING_MAX_CLUSTERS)"}},
		"variable of a type":    {Options{Env: []string{"AERIE_BUILD_SLOTS=all"}}, []string{`build.slots is "all" (AERIE_BUILD_SLOTS); it must be a whole number`}},
		"flag out of range":     {flag("clustering.max_clusters", "--max-clusters", "1"), []string{"clustering.max_clusters is 1 (--max-clusters)"}},
		"flag of a type":        {flag("clustering.threshold", "--threshold", "half"), []string{`clustering.threshold is "half" (--threshold); it must be a number`}},
		"number too large":      {flag("build.slots", "--slots", "99999999999999999999"), []string{"a whole number"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Load(c.options)
			checkSentence(t, err, "", c.want)
		})
	}
}

// TestServiceLinks: Kubernetes sets variables for the services of a namespace, and a service named aerie-... must
// not keep a worker from starting.
func TestServiceLinks(t *testing.T) {
	_, _, err := Load(Options{Env: []string{
		"AERIE_PORT=tcp://10.0.0.1:7744", "AERIE_SERVICE_HOST=10.0.0.1", "AERIE_COORDINATOR_SERVICE_HOST=10.0.0.1",
		"AERIE_COORDINATOR_SERVICE_PORT=7744", "AERIE_COORDINATOR_SERVICE_PORT_HTTP=7744", "AERIE_COORDINATOR_PORT=tcp://10.0.0.1:7744",
		"AERIE_COORDINATOR_PORT_7744_TCP=tcp://10.0.0.1:7744", "AERIE_COORDINATOR_PORT_7744_TCP_ADDR=10.0.0.1",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name string
		from []string
		want string
	}{
		{"biuld", []string{"ask", "build", "buried"}, "build"}, // two letters swapped
		{"Status", []string{"state", "status"}, "status"},      // case
		{"max-clusters", []string{"max_cluster", "max_clusters"}, "max_clusters"},
		{"scop", []string{"corpus", "build.scope"}, "build.scope"}, // its section left away
		{"", []string{"a", "bb"}, "a"},
		{"x", nil, ""},
	} {
		if got := Nearest(c.name, c.from); got != c.want {
			t.Errorf("Nearest(%q, %q) = %q, want %q", c.name, c.from, got, c.want)
		}
	}
}

// FuzzFile: any bytes as a file give a configuration or one sentence, never a panic.
func FuzzFile(f *testing.F) {
	f.Add([]byte(Template()))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("summaries: {extra: {<<: {a: 1}}}\nbuild: {prices: {m: {input: }}}"))
	f.Add([]byte("? [a]\n: b\nclustering: !!int 3"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, err := Load(Options{File: write(t, "fuzz.yaml", string(b))})
		if err != nil && strings.ContainsRune(err.Error(), 0) {
			t.Errorf("%q", err)
		}
	})
}
