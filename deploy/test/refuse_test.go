package deploy_test

import (
	"maps"
	"strings"
	"testing"
)

// merge lays one tree of values over another, as Helm does with further files.
func merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	for k, v := range over {
		a, okA := out[k].(map[string]any)
		b, okB := v.(map[string]any)
		if okA && okB {
			v = merge(a, b)
		}
		out[k] = v
	}
	return out
}

// TestRefused holds what the chart doesn't install, and that it says why.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, values, where, want string }{
		{"no address of the queue", `config: {queue: {url: ""}}`, "/config/queue/url", "nats://nats.nats:4222; it is required"},
		{"no address of the state", `config: {state: {url: ""}}`, "/config/state/url", "redis://redis.redis:6379; it is required"},
		{"no address of the store", `config: {store: {url: ""}}`, "/config/store/url", "http://weaviate.weaviate; it is required"},
		{"another scheme", `config: {state: {url: "http://redis"}}`, "/config/state/url", "redis://"},
		{"no scheme", `config: {queue: {url: "nats:4222"}}`, "/config/queue/url", "an address such as nats://"},
		{"a password in an address", `config: {state: {url: "redis://me:secret@redis"}}`, "/config/state/url", "without user and password"},
		{"no token", `secrets: {server.token_file: null}`, "/secrets", "server.token_file"},
		{"both autoscalers", `worker: {keda: {enabled: true, monitoringEndpoint: "n:8222"}, hpa: {enabled: true}}`, "/worker/hpa/enabled", "only one of them can set the number of workers"},
		{"replicas beside hpa", `worker: {replicas: 3, hpa: {enabled: true}}`, "/worker/replicas", "worker.hpa sets the number of workers"},
		{"replicas beside keda", `worker: {replicas: 3, keda: {enabled: true, monitoringEndpoint: "n:8222"}}`, "/worker/replicas", "worker.keda sets the number of workers"},
		{"keda without an endpoint", `worker: {keda: {enabled: true}}`, "/worker/keda/monitoringEndpoint", "host:port at which NATS can be monitored"},
		{"keda with an address", `worker: {keda: {enabled: true, monitoringEndpoint: "http://n:8222"}}`, "/worker/keda/monitoringEndpoint", "host:port at which NATS can be monitored"},
		{"keda upside down", `worker: {keda: {enabled: true, monitoringEndpoint: "n:8222", minReplicas: 30}}`, "", "minReplicas is 30, more than maxReplicas, 20"},
		{"keda's fallback above all", `worker: {keda: {enabled: true, monitoringEndpoint: "n:8222", fallback: {replicas: 21}}}`, "", "fallback.replicas is 21"},
		{"hpa upside down", `worker: {hpa: {enabled: true, minReplicas: 21}}`, "", "minReplicas is 21, more than maxReplicas, 20"},
		{"a key among the settings", `config: {summaries: {api_key: sk-123}}`, "/config/summaries/api_key", "name the Secret that holds it under secrets, as summaries.api_key_file"},
		{"a password among the settings", `config: {state: {password: x}}`, "/config/state/password", "under secrets, as state.password_file"},
		{"a file among the settings", `config: {queue: {credentials_file: /x}}`, "/config/queue/credentials_file", "under secrets, as queue.credentials_file"},
		{"a secret as the name of a Secret", `secrets: {summaries.api_key_file: {existingSecret: sk-Proj_123, key: k}}`, "/secrets/summaries.api_key_file/existingSecret", "never the secret itself"},
		{"a secret that no setting takes", `secrets: {summaries.api_key: {existingSecret: a, key: k}}`, "/secrets", "summaries.api_key"},
		{"a Secret without a key", `secrets: {store.api_key_file: {existingSecret: a}}`, "/secrets/store.api_key_file", "key"},
		{"half a certificate", `{config: {state: {url: "rediss://r"}}, secrets: {state.cert_file: {existingSecret: a, key: k}}}`, "", "state.cert_file and state.key_file go together"},
		{"a certificate without encryption", `secrets: {state.ca_file: {existingSecret: a, key: k}}`, "/config/state/url", "rediss://"},
		{"a certificate of Weaviate without encryption", `secrets: {store.ca_file: {existingSecret: a, key: k}}`, "/config/store/url", "https://"},
		{"two ways to log in", `secrets: {queue.credentials_file: {existingSecret: a, key: k}, queue.nkey_file: {existingSecret: a, key: k}}`, "/secrets/queue.nkey_file", "only one of them"},
		{"a setting as a variable", `env: {AERIE_BUILD_SLOTS: "9"}`, "/env/AERIE_BUILD_SLOTS", "settings of aerie stand under config"},
		{"a secret as a variable", `env: {OPENAI_API_KEY: x}`, "/env/OPENAI_API_KEY", "no secret becomes a variable"},
		{"four fields of cron", `config: {build: {schedule: "0 2 * *"}}`, "/config/build/schedule", "five fields"},
		{"a word of cron", `config: {build: {schedule: "@daily"}}`, "/config/build/schedule", "five fields"},
		{"a duration without a unit", `config: {worker: {grace: 60}}`, "/config/worker/grace", "with its unit, such as 60s"},
		{"a duration in days", `config: {worker: {grace: 1d}}`, "/config/worker/grace", "with its unit, such as 60s"},
		{"seconds with a unit", `coordinator: {terminationGracePeriodSeconds: 60s}`, "/coordinator/terminationGracePeriodSeconds", "without a unit"},
		{"a margin with a unit", `worker: {terminationMargin: 30s}`, "/worker/terminationMargin", "without a unit"},
		{"memory in GB", `worker: {resources: {limits: {memory: 4GB}}}`, "/worker/resources/limits/memory", "such as 512Mi"},
		{"memory in GB for clustering's pod", `coordinator: {spool: {sizeLimit: 10 Gi}}`, "/coordinator/spool/sizeLimit", "such as 512Mi"},
		{"a memory limit without sense", `config: {clustering: {memory_limit: much}}`, "/config/clustering/memory_limit", "with its unit, such as 3GiB"},
		{"more slots than tasks in hand", `worker: {replicas: 103}`, "", "config.queue.max_in_hand is 1024; 103 workers of 8 slots need 1030"},
		{"a second address without a scheme", `config: {queue: {url: "nats://a:4222,b:4222"}}`, "/config/queue/url", "an address such as nats://"},
		{"gRPC with a scheme", `config: {store: {grpc_url: "grpc://w:50051"}}`, "/config/store/grpc_url", "host:port of the gRPC side"},
		{"a share above one", `config: {build: {max_buried: 5}}`, "/config/build/max_buried", "1"},
		{"a lease without a unit", `config: {server: {lease: 15}}`, "/config/server/lease", "with its unit"},
		{"two replicas of a stream", `config: {queue: {replicas: 2}}`, "/config/queue/replicas", "1, 3 or 5"},
		{"an endpoint without an address", `config: {summaries: {provider: openai, model: m}}`, "/config/summaries", "base_url"},
		{"an endpoint without a model", `config: {embeddings: {provider: openai, base_url: "http://h/v1", model: ""}}`, "/config/embeddings/model", "provider openai needs it"},
		{"no leaves in one tree", `config: {build: {keep_leaves: false, scope: corpus}}`, "/config/build/scope", "document, since keep_leaves is false"},
		{"a prompt without passages", `config: {summaries: {prompt: "Sum up"}}`, "/config/summaries/prompt", "{chunks}"},
		{"a misspelt setting", `config: {build: {slotz: 3}}`, "/config/build", "slotz"},
		{"a misspelt value", `workers: {replicas: 3}`, "", "workers"},
		{"a listener", `config: {server: {listen: "0.0.0.0:1"}}`, "/config/server/listen", "coordinator.port sets it"},
		{"the address for clients", `config: {server: {url: "http://x"}}`, "/config/server/url", "for clients"},
		{"a tag that moves", `image: {tag: latest}`, "/image/tag", "a version"},
		{"half a digest", `image: {digest: "sha256:12"}`, "/image/digest", "64 hexadecimal digits"},
		{"no coordinator", `coordinator: {replicas: 0}`, "/coordinator/replicas", "1"},
		{"a budget that stops drains", `worker: {pdb: {maxUnavailable: 0}}`, "/worker/pdb/maxUnavailable", "would stop every drain"},
		{"root", `podSecurityContext: {runAsNonRoot: false}`, "/podSecurityContext/runAsNonRoot", "true"},
		{"privileges", `securityContext: {allowPrivilegeEscalation: true}`, "/securityContext/allowPrivilegeEscalation", "false"},
		{"metrics for everybody", `networkPolicy: {prometheus: []}`, "/networkPolicy/prometheus", "minItems"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := render(merge(values(t, "minimal"), parse(t, c.values)))
			if err == nil {
				t.Fatalf("%s is installed", c.values)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.where) {
				t.Errorf("%s\n%v\nwant %q at %q", c.values, err, c.want, c.where)
			}
		})
	}
	// The same values without what is refused are installed: see TestKinds. The chart alone isn't.
	if _, err := render(map[string]any{}); err == nil {
		t.Error("the chart is installed without any value")
	}
}
