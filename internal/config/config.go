package config

import (
	"maps"
	"time"

	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/llm"
)

// Config is everything that aerie.yaml may say. The zero value is not valid; start from [Default] or [Load].
type Config struct {
	// Corpus names the corpus to work on: 1 to 64 of a-z, A-Z, 0-9, "_" and "-", starting with a letter or digit.
	Corpus string `key:"corpus"`

	Chunking   Chunking   `key:"chunking"`
	Clustering Clustering `key:"clustering"`
	Summaries  Summaries  `key:"summaries"`
	Embeddings Embeddings `key:"embeddings"`
	Build      Build      `key:"build"`
	Limits     Limits     `key:"limits"`
	Queue      Queue      `key:"queue"`
	State      State      `key:"state"`
	Store      Store      `key:"store"`
	Server     Server     `key:"server"`
	Worker     Worker     `key:"worker"`
	Telemetry  Telemetry  `key:"telemetry"`
	// Readers are commands that read files by extension, such as pdf: the file on stdin, its text on stdout.
	Readers map[string]string `key:"readers"`
	// Prices are by model; see [Config.PriceOf]. A cost is told only for models that stand here or in Build.Prices.
	Prices map[string]Price `key:"prices"`
}

// Chunking says how documents are cut into leaves.
type Chunking struct {
	// Tokens is the size that leaves are filled up to, 8 to 8192. Sentences stay whole, but for one that is larger.
	Tokens int `key:"tokens"`
}

// Clustering says how a level's nodes are grouped; see clustering.Config.
type Clustering struct {
	// Mode is raptor, reference, flat or kmeans.
	Mode string `key:"mode"`
	// Seed decides every random choice.
	Seed uint64 `key:"seed"`
	// Threshold is the posterior above which a node joins a cluster beside its best, in (0, 1).
	Threshold float64 `key:"threshold"`
	// ReducedDimensionality is the width of the projection, at least 1.
	ReducedDimensionality int `key:"reduced_dimensionality"`
	// MaxClusterTokens is the hard cap on the tokens of a cluster's children, at least 1.
	MaxClusterTokens int `key:"max_cluster_tokens"`
	// TargetClusterSize t makes at least n/t clusters; 0 leaves it to the token cap, else at least 2.
	TargetClusterSize int `key:"target_cluster_size"`
	// MaxClusters bounds the number of clusters, yielding to the two above; 0 is no bound, else at least 2.
	MaxClusters int `key:"max_clusters"`
	// MemoryLimit is the most memory that clustering may plan to use; 0 is what the machine has available.
	MemoryLimit Bytes `key:"memory_limit"`
}

// Summaries says who writes summaries, and from what.
type Summaries struct {
	// Provider is extractive (built in, no model) or openai (any endpoint of that kind).
	Provider string `key:"provider"`
	// BaseURL is the endpoint up to and without /chat/completions; required for openai.
	BaseURL string `key:"base_url"`
	// APIKey is sent as a bearer token; empty sends none. Load fills it from APIKeyFile.
	APIKey Secret `key:"api_key"`
	// APIKeyFile names a file that holds the key; a relative path in aerie.yaml starts at its folder.
	APIKeyFile string `key:"api_key_file"`
	// Model is required for openai.
	Model string `key:"model"`
	// ContextTokens is the model's window: prompt, passages and answer together.
	ContextTokens int `key:"context_tokens"`
	// MaxOutputTokens bounds an answer, at least 1.
	MaxOutputTokens int `key:"max_output_tokens"`
	// Temperature is 0 to 2.
	Temperature float64 `key:"temperature"`
	// Prompt holds {chunks} once; empty is the default prompt.
	Prompt string `key:"prompt"`
	// Timeout bounds one call, at least 1s.
	Timeout time.Duration `key:"timeout"`
	// Extra is sent as it is in every request body; it may not replace what aerie itself sends.
	Extra map[string]any `key:"extra"`
	// Embeddings is an endpoint for the vectors of summaries alone.
	Embeddings SummaryEmbeddings `key:"embeddings"`
}

// SummaryEmbeddings is an embedding endpoint for summaries alone, such as another server of the model that
// embedded the leaves. Its vectors must be as wide as the corpus's. Batches, prefixes, timeout and extra are those of [Embeddings].
type SummaryEmbeddings struct {
	// Provider is empty (summaries are embedded like leaves), lexical or openai.
	Provider string `key:"provider"`
	// BaseURL is required for openai.
	BaseURL string `key:"base_url"`
	// APIKey is sent as a bearer token; empty sends none.
	APIKey Secret `key:"api_key"`
	// APIKeyFile names a file that holds the key.
	APIKeyFile string `key:"api_key_file"`
	// Model is required for openai.
	Model string `key:"model"`
}

// Embeddings says who turns texts into vectors.
type Embeddings struct {
	// Provider is lexical (built in, no model) or openai.
	Provider string `key:"provider"`
	// BaseURL is the endpoint up to and without /embeddings; required for openai.
	BaseURL string `key:"base_url"`
	// APIKey is sent as a bearer token; empty sends none.
	APIKey Secret `key:"api_key"`
	// APIKeyFile names a file that holds the key.
	APIKeyFile string `key:"api_key_file"`
	// Model is required for openai.
	Model string `key:"model"`
	// BatchItems and BatchTokens bound one request, both at least 1.
	BatchItems  int `key:"batch_items"`
	BatchTokens int `key:"batch_tokens"`
	// QueryPrefix and PassagePrefix are put before texts, as some encoders want it.
	QueryPrefix   string `key:"query_prefix"`
	PassagePrefix string `key:"passage_prefix"`
	// Timeout bounds one call, at least 1s.
	Timeout time.Duration `key:"timeout"`
	// Extra is sent as it is in every request body.
	Extra map[string]any `key:"extra"`
}

// Build says when and how a tree is built.
type Build struct {
	// Scope is corpus (one tree) or document (a tree for each).
	Scope string `key:"scope"`
	// KeepLeaves false leaves the leaves out of search; only with scope document.
	KeepLeaves bool `key:"keep_leaves"`
	// GrowthThreshold is the share of a corpus that must have changed since the published build for the next
	// one to be due, above 0.
	GrowthThreshold float64 `key:"growth_threshold"`
	// Auto false starts no build by itself, not even the first one: aerie build does.
	Auto bool `key:"auto"`
	// DeleteDelay is how long after the last deletion of a document a build is due; at least 0s.
	DeleteDelay time.Duration `key:"delete_delay"`
	// Growth is incremental (a build grows the published tree where it can) or full (each clusters everything anew).
	Growth string `key:"growth"`
	// Stale is the share of its leaf tokens that a summary of a growing tree may not have seen, 0 to below 1; 0 makes every
	// summary that is touched again.
	Stale float64 `key:"stale"`
	// Keep is how many trees before the published one are kept for aerie rollback, 0 or 1.
	Keep int `key:"keep"`
	// MinChunks is the number of nodes below which no further level is built, at least 2.
	MinChunks int `key:"min_chunks"`
	// MaxDepth is the highest level; 0 is until a level can't be usefully split.
	MaxDepth int `key:"max_depth"`
	// Slots is how many summaries one process makes at a time, 1 to 10,000.
	Slots int `key:"slots"`
	// MaxAttempts is how often a task may fail before it is buried, at least 1.
	MaxAttempts int `key:"max_attempts"`
	// TaskTimeout bounds all work on one summary, waits for endpoints included, at least 1s. After it the attempt has failed.
	TaskTimeout time.Duration `key:"task_timeout"`
	// MaxBuried is the share of a level's tasks that may be buried and the level go on without them, 0 to 1. With 0 the
	// build stops as degraded, keeps all it has, and `aerie retry --failed` goes on.
	MaxBuried float64 `key:"max_buried"`
	// MaxTokens and MaxCost are the budget of one build, input and output together; 0 is none.
	MaxTokens int     `key:"max_tokens"`
	MaxCost   float64 `key:"max_cost"`
	// Prices are the older place of Config.Prices; a model stands in one of the two.
	Prices map[string]Price `key:"prices"`
	// Schedule is a cron expression of five fields; empty is none. Used by the coordinator.
	Schedule string `key:"schedule"`
	// TimeZone is that of Schedule, such as Europe/Berlin.
	TimeZone string `key:"time_zone"`
}

// Price is what a million tokens cost.
type Price struct {
	Input    float64 `key:"input" json:"input"`
	Output   float64 `key:"output" json:"output"`
	Currency string  `key:"currency" json:"currency"` // three capital letters; empty in the file is USD
	// CachedInput is for the part of a prompt that the endpoint had in its cache; 0: as Input. Costs are told as if nothing was cached,
	// which is an upper bound, as long as endpoints' counts of cached tokens are not read.
	CachedInput float64 `key:"cached_input" json:"cached_input,omitempty"`
	// BatchInput and BatchOutput are for calls in batches, both or none; 0: the model has no such price.
	BatchInput  float64 `key:"batch_input" json:"batch_input,omitempty"`
	BatchOutput float64 `key:"batch_output" json:"batch_output,omitempty"`
}

// PriceOf returns what a model costs, if that is configured.
func (c *Config) PriceOf(model string) (Price, bool) {
	p, ok := c.AllPrices()[model]
	return p, ok
}

// AllPrices returns the prices of both places, by model.
func (c *Config) AllPrices() map[string]Price {
	all := make(map[string]Price, len(c.Prices)+len(c.Build.Prices))
	maps.Copy(all, c.Build.Prices)
	maps.Copy(all, c.Prices)
	return all
}

// Limits are those of each endpoint, for the whole fleet together; 0 is none.
type Limits struct {
	RequestsPerMinute     int `key:"requests_per_minute"`
	InputTokensPerMinute  int `key:"input_tokens_per_minute"`
	OutputTokensPerMinute int `key:"output_tokens_per_minute"`
}

// Queue is where tasks wait.
type Queue struct {
	// URL is nats://…, several with commas; empty is in this process, on disk.
	URL string `key:"url"`
	// CredentialsFile is a .creds file (JWT and seed); NKeyFile one with the seed of an nkey. One of them at most.
	CredentialsFile string `key:"credentials_file"`
	NKeyFile        string `key:"nkey_file"`
	// CAFile names a PEM file of the authority that the server's certificate is checked against, instead of the system's;
	// CertFile and KeyFile those of this client's certificate, both or none. Any of them makes the connection TLS.
	CAFile   string `key:"ca_file"`
	CertFile string `key:"cert_file"`
	KeyFile  string `key:"key_file"`
	// MonitorURL is http(s)://host:8222 of the server's monitoring side, where it is asked at the start whether it flushes what it
	// confirms; empty leaves that unchecked.
	MonitorURL string `key:"monitor_url"`
	// Replicas of each stream: 1, 3 or 5.
	Replicas int `key:"replicas"`
	// AckWait is how long a task stays with a worker that gives no sign of life, at least 500ms.
	AckWait time.Duration `key:"ack_wait"`
	// MaxInHand bounds the tasks in hand over all workers, from 1: workers × slots × 1.25, and room for tasks that wait
	// before they are tried again.
	MaxInHand int `key:"max_in_hand"`
}

// State is where builds and barriers are kept.
type State struct {
	// URL is redis://… or rediss://…; empty is SQLite in the home. Several servers of a cluster stand with commas.
	URL string `key:"url"`
	// User and Password win over those of the URL. Load fills Password from PasswordFile.
	User         string `key:"user"`
	Password     Secret `key:"password"`
	PasswordFile string `key:"password_file"`
	// CAFile, CertFile and KeyFile are as in [Queue]; only with rediss://.
	CAFile   string `key:"ca_file"`
	CertFile string `key:"cert_file"`
	KeyFile  string `key:"key_file"`
}

// Store is where nodes are kept.
type Store struct {
	// URL is http(s)://… of Weaviate; empty is SQLite in the home.
	URL string `key:"url"`
	// GRPCURL is host:port of its gRPC side, after grpc:// or grpcs:// if it differs from URL in using TLS; empty is the host of URL at
	// 50051, or 443 with https.
	GRPCURL string `key:"grpc_url"`
	// APIKey is sent as a bearer token; empty sends none.
	APIKey Secret `key:"api_key"`
	// APIKeyFile names a file that holds the key.
	APIKeyFile string `key:"api_key_file"`
	// CAFile, CertFile and KeyFile are as in [Queue]; only with https://.
	CAFile   string `key:"ca_file"`
	CertFile string `key:"cert_file"`
	KeyFile  string `key:"key_file"`
	// Tenant makes collections multi-tenant and works within this tenant; empty is without tenants.
	Tenant string `key:"tenant"`
	// Replicas is the replication factor of new collections; 0 is the server's default.
	Replicas int `key:"replicas"`
	// Consistency is ONE, QUORUM or ALL; empty is the server's default.
	Consistency string `key:"consistency"`
	// Compat lists other systems whose property names are written too: helix, llama_index.
	Compat []string `key:"compat"`
}

// Server is the coordinator's HTTP side.
type Server struct {
	// Listen is host:port of the coordinator.
	Listen string `key:"listen"`
	// Lease is how long a coordinator that gives no sign of life keeps the builds that it runs, at least 1s.
	Lease time.Duration `key:"lease"`
	// URL makes every command of aerie a client of that coordinator; empty works on the home.
	URL string `key:"url"`
	// Token is what the coordinator's clients must send, and what aerie sends; empty is none, which Listen must be on loopback for.
	Token Secret `key:"token"`
	// TokenFile names a file that holds the token; a relative path in aerie.yaml starts at its folder.
	TokenFile string `key:"token_file"`
	// CAFile names a PEM file of the authority that the coordinator's certificate is checked against, instead of the system's; only
	// with https://.
	CAFile string `key:"ca_file"`
	// TokensFile names the coordinator's file of tokens with names, rights and corpora, beside Token, which has every right. It is
	// read again when it changes.
	TokensFile string `key:"tokens_file"`
	// TLSCert and TLSKey name PEM files of the certificate, with those of its authorities, and the key that the coordinator serves
	// with; both or none. They are read again when they change.
	TLSCert string `key:"tls_cert"`
	TLSKey  string `key:"tls_key"`
	// AuditLog names the file that changes of documents, builds and corpora are written to; empty is the coordinator's log, and with
	// aerie itself nowhere.
	AuditLog string `key:"audit_log"`
}

// Worker is the worker daemon's own.
type Worker struct {
	// Listen is host:port of health and metrics; empty is none.
	Listen string `key:"listen"`
	// Grace is the time to finish on SIGTERM, at least 1s.
	Grace time.Duration `key:"grace"`
}

// Telemetry says where the daemons' traces go.
type Telemetry struct {
	// OTLPEndpoint is http(s)://… of an OTLP receiver over HTTP, without /v1/traces; empty leaves it to the standard
	// OTEL_* variables, and without those there are no traces.
	OTLPEndpoint string `key:"otlp_endpoint"`
	// TraceRatio is the share of traces that is kept, above 0 and at most 1; 1 leaves it to OTEL_TRACES_SAMPLER.
	TraceRatio float64 `key:"trace_ratio"`
}

// Default returns the configuration of an empty aerie.yaml.
func Default() *Config {
	clusters := clustering.DefaultConfig()
	summaries, embeddings := llm.DefaultSummaries(), llm.DefaultEmbeddings()
	return &Config{
		Corpus:   "default",
		Chunking: Chunking{Tokens: 100},
		Clustering: Clustering{
			Mode: string(clusters.Mode), Seed: clusters.Seed, Threshold: clusters.Threshold, ReducedDimensionality: clusters.Dim,
			MaxClusterTokens: clusters.MaxClusterTokens,
		},
		Summaries: Summaries{
			Provider: summaries.Provider, ContextTokens: summaries.ContextTokens, MaxOutputTokens: summaries.MaxOutputTokens,
			Timeout: summaries.Timeout,
		},
		Embeddings: Embeddings{
			Provider: embeddings.Provider, BatchItems: embeddings.BatchItems, BatchTokens: embeddings.BatchTokens,
			Timeout: embeddings.Timeout,
		},
		Build: Build{
			Scope: "corpus", KeepLeaves: true, GrowthThreshold: 0.10, Auto: true, Growth: "incremental", Stale: 0.20, Keep: 1, DeleteDelay: time.Minute,
			MinChunks: 5, Slots: 8, MaxAttempts: 5, TaskTimeout: time.Hour,
			TimeZone: "UTC",
		},
		Queue:     Queue{Replicas: 1, AckWait: 60 * time.Second, MaxInHand: 1024},
		Server:    Server{Listen: "127.0.0.1:7744", Lease: 15 * time.Second},
		Worker:    Worker{Listen: "127.0.0.1:7745", Grace: 60 * time.Second},
		Telemetry: Telemetry{TraceRatio: 1},
	}
}
