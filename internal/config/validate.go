package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// corpusName is what fits into a queue's subject, a file name and a database's class name alike.
var corpusName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// minPassageTokens is the least room for text that a prompt must leave beside itself and the answer. Less than
// that, and a summary would be made of crumbs.
const minPassageTokens = 64

// Placeholder stands in a prompt for the passages.
const Placeholder = "{chunks}"

// Validate returns an *Error for the first key that is out of range, or that another one contradicts.
func (c *Config) Validate() error {
	if !corpusName.MatchString(c.Corpus) {
		return wrong("corpus", c.Corpus, `1 to 64 letters (a-z, A-Z), digits, "-" or "_", and start with a letter or digit`)
	}
	if v := c.Chunking.Tokens; v < 8 || v > 8192 {
		return wrong("chunking.tokens", v, "from 8 to 8192")
	}
	for _, check := range []func() error{
		c.Clustering.validate, c.Summaries.validate, c.Embeddings.validate, c.validateBuild, c.Limits.validate,
		c.validateFleet, c.Telemetry.validate,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Clustering) validate() error {
	if err := oneOf("clustering.mode", c.Mode, "raptor", "reference", "flat", "kmeans"); err != nil {
		return err
	}
	if !(c.Threshold > 0 && c.Threshold < 1) {
		return wrong("clustering.threshold", c.Threshold, "above 0 and below 1")
	}
	return cmp.Or(
		atLeast("clustering.reduced_dimensionality", c.ReducedDimensionality, 1),
		atLeast("clustering.max_cluster_tokens", c.MaxClusterTokens, 1),
		zeroOrAtLeast("clustering.target_cluster_size", c.TargetClusterSize, "the token cap decides", 2),
		zeroOrAtLeast("clustering.max_clusters", c.MaxClusters, "no limit", 2),
		notNegative("clustering.memory_limit", c.MemoryLimit, "what the machine has available"),
	)
}

func (s *Summaries) validate() error {
	if err := oneOf("summaries.provider", s.Provider, "extractive", "openai"); err != nil {
		return err
	}
	if err := endpoint("summaries", s.Provider, s.BaseURL, s.Model); err != nil {
		return err
	}
	if err := cmp.Or(
		atLeast("summaries.context_tokens", s.ContextTokens, 1),
		atLeast("summaries.max_output_tokens", s.MaxOutputTokens, 1),
		atLeastDuration("summaries.timeout", s.Timeout, time.Second),
		reserved("summaries.extra", s.Extra, "model", "messages", "stream", "n"),
	); err != nil {
		return err
	}
	if !(s.Temperature >= 0 && s.Temperature <= 2) {
		return wrong("summaries.temperature", s.Temperature, "from 0 to 2")
	}
	if n := strings.Count(s.Prompt, Placeholder); s.Prompt != "" && n != 1 {
		return wrongly("summaries.prompt", s.Prompt, "it must hold %s once, where the passages go, and holds it %d times", Placeholder, n)
	}
	// A token of a prompt is about four bytes; the exact check is made with the tokenizer, when a build starts.
	need := s.MaxOutputTokens + len(s.Prompt)/4 + minPassageTokens
	if s.ContextTokens < need {
		return wrongly("summaries.context_tokens", s.ContextTokens,
			"it must be at least %d, to hold max_output_tokens (%d), the prompt (about %d) and %d tokens of text",
			need, s.MaxOutputTokens, len(s.Prompt)/4, minPassageTokens)
	}
	if s.Embeddings.Provider == "" {
		for _, field := range [][2]string{{"base_url", s.Embeddings.BaseURL}, {"model", s.Embeddings.Model}} {
			if field[1] != "" {
				return missing("summaries.embeddings.provider", "summaries.embeddings."+field[0]+
					" is set and needs it: lexical or openai")
			}
		}
		return nil
	}
	if err := oneOf("summaries.embeddings.provider", s.Embeddings.Provider, "lexical", "openai"); err != nil {
		return err
	}
	return endpoint("summaries.embeddings", s.Embeddings.Provider, s.Embeddings.BaseURL, s.Embeddings.Model)
}

func (e *Embeddings) validate() error {
	if err := oneOf("embeddings.provider", e.Provider, "lexical", "openai"); err != nil {
		return err
	}
	return cmp.Or(
		endpoint("embeddings", e.Provider, e.BaseURL, e.Model),
		atLeast("embeddings.batch_items", e.BatchItems, 1),
		atLeast("embeddings.batch_tokens", e.BatchTokens, 1),
		atLeastDuration("embeddings.timeout", e.Timeout, time.Second),
		reserved("embeddings.extra", e.Extra, "model", "input", "encoding_format"),
	)
}

func (c *Config) validateBuild() error {
	b := &c.Build
	if err := oneOf("build.scope", b.Scope, "corpus", "document"); err != nil {
		return err
	}
	if !b.KeepLeaves && b.Scope != "document" {
		return wrong("build.keep_leaves", b.KeepLeaves, "true, unless build.scope is document")
	}
	if !(b.GrowthThreshold > 0) || math.IsInf(b.GrowthThreshold, 0) {
		return wrong("build.growth_threshold", b.GrowthThreshold, "a number above 0, such as 0.10 for 10 %")
	}
	if err := oneOf("build.growth", b.Growth, "incremental", "full"); err != nil {
		return err
	}
	if !(b.Stale >= 0 && b.Stale < 1) {
		return wrong("build.stale", b.Stale, "at least 0 and below 1, such as 0.20 for 20 %")
	}
	if b.Keep != 0 && b.Keep != 1 {
		return wrong("build.keep", b.Keep, "0 or 1: how many trees before the published one can be brought back")
	}
	if v := b.Slots; v < 1 || v > 10_000 {
		return wrong("build.slots", v, "from 1 to 10000")
	}
	if err := cmp.Or(
		atLeastDuration("build.delete_delay", b.DeleteDelay, 0),
		atLeast("build.min_chunks", b.MinChunks, 2),
		notNegative("build.max_depth", b.MaxDepth, "no limit"),
		atLeast("build.max_attempts", b.MaxAttempts, 1),
		atLeastDuration("build.task_timeout", b.TaskTimeout, time.Second),
		share("build.max_buried", b.MaxBuried),
		notNegative("build.max_tokens", b.MaxTokens, "no budget"),
		notNegative("build.max_cost", b.MaxCost, "no budget"),
		schedule("build.schedule", b.Schedule),
	); err != nil {
		return err
	}
	if _, err := time.LoadLocation(b.TimeZone); err != nil || b.TimeZone == "" {
		return wrong("build.time_zone", b.TimeZone, "the name of a time zone, such as UTC or Europe/Berlin")
	}
	return c.validatePrices()
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

func (c *Config) validatePrices() error {
	for _, model := range slices.Sorted(maps.Keys(c.Prices)) {
		if _, twice := c.Build.Prices[model]; twice {
			return &Error{Key: "prices", problem: fmt.Sprintf("prices%s and build.prices both have %q; keep the one in prices", wherePlace, model)}
		}
	}
	known, knownIn := "", ""
	for _, place := range []struct {
		key    string
		prices map[string]Price
	}{{"build.prices", c.Build.Prices}, {"prices", c.Prices}} {
		for _, model := range slices.Sorted(maps.Keys(place.prices)) {
			p := place.prices[model]
			if err := p.validate(place.key, model); err != nil {
				return err
			}
			if known != "" && known != p.Currency {
				both := place.key + " has both " + known + " and " + p.Currency
				if knownIn != place.key {
					both = knownIn + " has " + known + ", and " + place.key + " has " + p.Currency
				}
				return &Error{Key: place.key, problem: fmt.Sprintf("%s%s; use one currency, since budgets are sums", both, wherePlace)}
			}
			known, knownIn = p.Currency, place.key
		}
	}
	return c.validateMaxCost()
}

// validate checks the price of a model that stands under a key.
func (p Price) validate(key, model string) error {
	wrong := func(format string, args ...any) error {
		return &Error{Key: key, problem: fmt.Sprintf("%s of %q has ", key, model) + fmt.Sprintf(format, args...)}
	}
	for _, side := range []struct {
		name  string
		price float64
	}{{"input", p.Input}, {"output", p.Output}, {"cached_input", p.CachedInput}, {"batch_input", p.BatchInput}, {"batch_output", p.BatchOutput}} {
		if !(side.price >= 0) || math.IsInf(side.price, 0) {
			return wrong("%s %v%s; it must be 0 or more, per million tokens", side.name, side.price, wherePlace)
		}
	}
	if (p.BatchInput > 0) != (p.BatchOutput > 0) {
		has, lacks := "batch_input", "batch_output"
		if p.BatchOutput > 0 {
			has, lacks = lacks, has
		}
		return wrong("%s%s and no %s, which would then cost nothing", has, wherePlace, lacks)
	}
	if !currency.MatchString(p.Currency) {
		return wrong("currency %q%s; it must be three capital letters such as USD", p.Currency, wherePlace)
	}
	return nil
}

// validateMaxCost refuses a bound on money where no price makes money of tokens.
func (c *Config) validateMaxCost() error {
	if c.Build.MaxCost > 0 && c.Summaries.Provider == "openai" {
		if _, ok := c.PriceOf(c.Summaries.Model); !ok {
			return wrongly("build.max_cost", c.Build.MaxCost, "it needs the price of %q in prices, such as {%q: {input: 0.15, output: 0.60}}",
				c.Summaries.Model, c.Summaries.Model)
		}
		if p, _ := c.PriceOf(c.Summaries.Model); (p.Input > 0) != (p.Output > 0) {
			missing := "output"
			if p.Output > 0 {
				missing = "input"
			}
			return wrongly("build.max_cost", c.Build.MaxCost, "the price of %q has no %s, which would then cost nothing", c.Summaries.Model, missing)
		}
	}
	return nil
}

func (l *Limits) validate() error {
	return cmp.Or(
		notNegative("limits.requests_per_minute", l.RequestsPerMinute, "no limit"),
		notNegative("limits.input_tokens_per_minute", l.InputTokensPerMinute, "no limit"),
		notNegative("limits.output_tokens_per_minute", l.OutputTokensPerMinute, "no limit"),
	)
}

// minTokenLength is the least that can't be guessed in passing.
const minTokenLength = 16

// CheckListen returns an *Error if the coordinator's listener would let anybody in: it must be on loopback, or want a token.
func (s *Server) CheckListen() error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil || s.Token != "" || s.TokensFile != "" {
		return hostPort("server.listen", s.Listen, false)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return missing("server.token", fmt.Sprintf("server.listen is %s, which others can reach; set server.token, server.token_file or server.tokens_file, or listen on 127.0.0.1", s.Listen))
}

// firstAddress returns what stands before the first comma, where more servers of a cluster may be named.
func firstAddress(urls string) string {
	first, _, _ := strings.Cut(urls, ",")
	return first
}

// together checks that a client's certificate comes with its key.
func together(section, certFile, keyFile string) error {
	if (certFile == "") == (keyFile == "") {
		return nil
	}
	set, lacking := "cert_file", "key_file"
	if certFile == "" {
		set, lacking = lacking, set
	}
	return missing(section+"."+lacking, section+"."+set+" is set and needs it")
}

func (c *Config) validateFleet() error {
	if err := cmp.Or(
		address("queue.url", c.Queue.URL, "nats", "tls", "ws", "wss"),
		address("queue.monitor_url", c.Queue.MonitorURL, "http", "https"),
		address("state.url", firstAddress(c.State.URL), "redis", "rediss"),
		address("store.url", c.Store.URL, "http", "https"),
		hostPort("store.grpc_url", strings.TrimPrefix(strings.TrimPrefix(c.Store.GRPCURL, "grpc://"), "grpcs://"), true),
		hostPort("server.listen", c.Server.Listen, false),
		address("server.url", c.Server.URL, "http", "https"),
		hostPort("worker.listen", c.Worker.Listen, true),
		atLeastDuration("worker.grace", c.Worker.Grace, time.Second),
		atLeastDuration("server.lease", c.Server.Lease, time.Second),
		atLeastDuration("queue.ack_wait", c.Queue.AckWait, 500*time.Millisecond),
		atLeast("queue.max_in_hand", c.Queue.MaxInHand, 1),
		notNegative("store.replicas", c.Store.Replicas, "the server's default"),
		together("queue", c.Queue.CertFile, c.Queue.KeyFile),
		together("state", c.State.CertFile, c.State.KeyFile),
		together("store", c.Store.CertFile, c.Store.KeyFile),
	); err != nil {
		return err
	}
	if (c.Server.TLSCert == "") != (c.Server.TLSKey == "") {
		set, lacking := "tls_cert", "tls_key"
		if c.Server.TLSCert == "" {
			set, lacking = lacking, set
		}
		return missing("server."+lacking, "server."+set+" is set and needs it")
	}
	if n := len(c.Server.Token.Reveal()); n > 0 && n < minTokenLength {
		return wrongly("server.token", mask, "it must have at least %d characters; `openssl rand -hex 32` makes one", minTokenLength)
	}
	if r := c.Queue.Replicas; r != 1 && r != 3 && r != 5 {
		return wrong("queue.replicas", r, "1, 3 or 5")
	}
	if c.Queue.CredentialsFile != "" && c.Queue.NKeyFile != "" {
		return wrongly("queue.nkey_file", c.Queue.NKeyFile, "queue.credentials_file is set too, and only one of them can be used")
	}
	if c.Store.Consistency != "" {
		if err := oneOf("store.consistency", c.Store.Consistency, "ONE", "QUORUM", "ALL"); err != nil {
			return err
		}
	}
	for _, name := range c.Store.Compat {
		if err := oneOf("store.compat", name, "helix", "llama_index"); err != nil {
			return err
		}
	}
	return nil
}

func (t *Telemetry) validate() error {
	if err := address("telemetry.otlp_endpoint", t.OTLPEndpoint, "http", "https"); err != nil {
		return err
	}
	if !(t.TraceRatio > 0 && t.TraceRatio <= 1) {
		return wrong("telemetry.trace_ratio", t.TraceRatio, "above 0 and at most 1")
	}
	return nil
}
