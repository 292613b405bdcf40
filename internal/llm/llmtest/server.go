package llmtest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// Config says how the endpoint behaves. The zero value is one that never fails.
type Config struct {
	// ContextTokens is the window, by [Tokens]: a prompt that with max_tokens exceeds it is refused with 400
	// context_length_exceeded, and counted as a violation. 0 is 8192.
	ContextTokens int
	// Count counts tokens; nil means [Tokens].
	Count func(text string) int
	// Width is that of vectors; 0 is 64.
	Width int
	// MaxInputs bounds the texts of an embedding request; more are refused with 400. 0 is no bound.
	MaxInputs int
	// Latency is how long each call takes.
	Latency time.Duration
	// RequestsPerMinute refuses more with 429 and Retry-After; 0 is no bound.
	RequestsPerMinute int
	// Key, if not empty, is the API key that requests must bring; 401 otherwise.
	Key string
	// Faults are the shares of calls that fail in each way; see [AllFaults].
	Faults map[Fault]float64
	// Seed decides which calls fail.
	Seed uint64
	// Reasons is how many tokens the model thinks before each answer: with a smaller limit the answer is only that. 0 is a model that
	// doesn't.
	Reasons int
	// Chat, if not nil, replaces the answer to a prompt.
	Chat func(prompt string, maxTokens int) string
}

// Counts says what was asked for and what became of it.
type Counts struct {
	Chat, Embeddings int           // requests that came in, those that failed included
	ChatOK           int           // summaries given: what would have been paid for and is usable
	EmbeddingsOK     int           // embedding requests answered with all vectors
	Violations       int           // prompts that with max_tokens exceeded the window
	Limited          int           // refused by RequestsPerMinute
	Unauthorized     int           // without the key
	Faults           map[Fault]int // by kind
	LargestPrompt    int           // tokens of the largest prompt with its max_tokens
	Repeated         int           // prompts that were answered well more than once: paid for twice
}

// Server is the endpoint.
type Server struct {
	cfg  Config
	http *httptest.Server

	mu      sync.Mutex
	counts  Counts
	seen    map[uint64]int // how often a request has been made
	good    map[uint64]int // how often a prompt has been answered well
	started time.Time
	debt    time.Duration
	down    bool
}

// New starts an endpoint on 127.0.0.1.
func New(cfg Config) *Server {
	s := NewHandler(cfg)
	s.http = httptest.NewServer(s)
	return s
}

// NewHandler returns an endpoint that the caller serves.
func NewHandler(cfg Config) *Server {
	if cfg.ContextTokens == 0 {
		cfg.ContextTokens = 8192
	}
	if cfg.Count == nil {
		cfg.Count = Tokens
	}
	if cfg.Width == 0 {
		cfg.Width = 64
	}
	return &Server{cfg: cfg, counts: Counts{Faults: map[Fault]int{}}, seen: map[uint64]int{}, good: map[uint64]int{}, started: time.Now()}
}

// URL is the base URL: http://127.0.0.1:PORT/v1.
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Close stops the endpoint, and ends the calls under way.
func (s *Server) Close() {
	if s.http != nil {
		s.http.CloseClientConnections()
		s.http.Close()
	}
}

// Counts returns a snapshot.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Faults = make(map[Fault]int, len(s.counts.Faults))
	for k, v := range s.counts.Faults {
		c.Faults[k] = v
	}
	for _, n := range s.good {
		c.Repeated += max(0, n-1)
	}
	return c
}

// SetFaults changes the rates.
func (s *Server) SetFaults(faults map[Fault]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Faults = faults
}

// SetLatency changes how long each call takes.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Latency = d
}

// SetDown makes every call fail with 503, or ends that.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		s.count(func(c *Counts) { c.Unauthorized++ })
		fail(w, http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided.")
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		reply(w, map[string]any{"object": "list", "data": []any{
			map[string]any{"id": "fake", "object": "model", "max_model_len": s.cfg.ContextTokens},
		}})
	case "/v1/chat/completions", "/v1/embeddings":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !s.wait(r) {
			return
		}
		if r.URL.Path == "/v1/embeddings" {
			s.embeddings(w, body)
			return
		}
		s.chat(w, body)
	default:
		fail(w, http.StatusNotFound, "not_found", "There is no "+r.URL.Path)
	}
}

// wait lets the latency pass; false if the client has gone.
func (s *Server) wait(r *http.Request) bool {
	s.mu.Lock()
	latency := s.cfg.Latency
	s.mu.Unlock()
	if latency <= 0 {
		return true
	}
	t := time.NewTimer(latency)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) count(change func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// limited refuses a request that comes too early. The bucket holds one request.
func (s *Server) limited(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		fail(w, http.StatusServiceUnavailable, "unavailable", "The server is down.")
		return true
	}
	if s.cfg.RequestsPerMinute <= 0 {
		return false
	}
	per := time.Minute / time.Duration(s.cfg.RequestsPerMinute)
	now := time.Since(s.started)
	if early := s.debt - now - time.Second; early > 0 {
		s.counts.Limited++
		w.Header().Set("Retry-After", fmt.Sprint(int(early/time.Second)+1))
		fail(w, http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit reached for requests per minute.")
		return true
	}
	s.debt = max(s.debt, now) + per
	return false
}

// turn returns the hash of a request and how often it was made before.
func (s *Server) turn(body []byte) (hash uint64, before int) {
	h := fnv.New64a()
	h.Write(body)
	hash = h.Sum64()
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.seen[hash]
	s.seen[hash]++
	return hash, before
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": code, "code": code}})
}
