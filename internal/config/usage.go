package config

// usage says in a few words what each key does, for `aerie init`, help and `aerie config show`.
// TestKeys holds it complete.
var usage = map[string]string{
	"corpus": "the corpus to work on",

	"chunking.tokens": "size of a leaf in tokens; sentences stay whole",

	"clustering.mode":                   "raptor | reference | flat | kmeans",
	"clustering.seed":                   "decides every random choice",
	"clustering.threshold":              "posterior that makes a member, between 0 and 1",
	"clustering.reduced_dimensionality": "dimensions of the projection, 1 or more",
	"clustering.max_cluster_tokens":     "hard cap on the tokens of one cluster",
	"clustering.target_cluster_size":    "floor on the number of clusters, k >= n / target; 0: from the token cap (flat and kmeans: 100 and 5)",
	"clustering.max_clusters":           "0: no limit; yields to the two above",
	"clustering.memory_limit":           "most memory to plan with, such as 4GiB; 0: what the machine has available",

	"summaries.provider":                "extractive | openai",
	"summaries.base_url":                "any OpenAI-compatible endpoint, e.g. http://127.0.0.1:11434/v1",
	"summaries.api_key":                 "or api_key_file; or AERIE_SUMMARIES_API_KEY",
	"summaries.api_key_file":            "file that holds the key; relative to this file",
	"summaries.model":                   "model of the endpoint",
	"summaries.context_tokens":          "the model's window: prompt, passages and answer",
	"summaries.max_output_tokens":       "most tokens of one summary",
	"summaries.temperature":             "0 to 2",
	"summaries.prompt":                  "{chunks} is required, {words} stands for how many words fit; empty: the default prompt",
	"summaries.timeout":                 "of one call",
	"summaries.extra":                   "sent as they are in every request body",
	"summaries.embeddings.provider":     "an embedding endpoint for summaries alone: lexical | openai; empty: the corpus's",
	"summaries.embeddings.base_url":     "its endpoint; the vectors must be as wide as the corpus's",
	"summaries.embeddings.api_key":      "its key",
	"summaries.embeddings.api_key_file": "file that holds its key",
	"summaries.embeddings.model":        "its model",

	"embeddings.provider":       "lexical | openai",
	"embeddings.base_url":       "any OpenAI-compatible endpoint",
	"embeddings.api_key":        "or api_key_file; or AERIE_EMBEDDINGS_API_KEY",
	"embeddings.api_key_file":   "file that holds the key; relative to this file",
	"embeddings.model":          "model of the endpoint",
	"embeddings.batch_items":    "most texts in one request",
	"embeddings.batch_tokens":   "most tokens in one request",
	"embeddings.query_prefix":   "some encoders want one before queries",
	"embeddings.passage_prefix": "and another before passages",
	"embeddings.timeout":        "of one call",
	"embeddings.extra":          "sent as they are in every request body",

	"build.scope":            "corpus: one tree | document: a tree for each",
	"build.keep_leaves":      "false (document only): leaves stay out of search",
	"build.growth_threshold": "share of change since the last build that makes the next one due",
	"build.min_chunks":       "fewer nodes: no level above them",
	"build.max_depth":        "highest level; 0: until a level can't be usefully split",
	"build.slots":            "calls at a time in one process",
	"build.max_attempts":     "failures of one task before it is buried",
	"build.max_tokens":       "budget of one build; 0: none",
	"build.max_cost":         "budget of one build in the currency of prices; 0: none",
	"build.prices":           "model: {input: 0.15, output: 0.60, currency: USD} per million tokens",
	"build.schedule":         "cron expression for a coordinator: overnight builds",
	"build.time_zone":        "of the schedule",

	"limits.requests_per_minute":      "of the whole fleet; 0: none",
	"limits.input_tokens_per_minute":  "of the whole fleet; 0: none",
	"limits.output_tokens_per_minute": "of the whole fleet; 0: none",

	"queue.url": "nats://...; empty: in this process, on disk",
	"state.url": "redis://...; empty: SQLite in home",

	"store.url":          "http(s)://... of Weaviate; empty: SQLite in home",
	"store.grpc_url":     "host:port of its gRPC side; empty: the same host at 50051",
	"store.api_key":      "or api_key_file; or AERIE_STORE_API_KEY",
	"store.api_key_file": "file that holds the key; relative to this file",
	"store.compat":       "write the names of other systems too: helix, llama_index",

	"server.listen": "coordinator: HTTP API, /healthz, /readyz, /metrics",
	"server.url":    "makes every command a client of that coordinator",
	"worker.listen": "worker: /healthz, /readyz, /metrics; empty: none",
	"worker.grace":  "time to finish on SIGTERM",
}
