package llm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// maxEmbeddingReply bounds a reply in bytes: 2,048 vectors of 4,096 numbers of 24 characters.
const maxEmbeddingReply = 256 << 20

// defaultAttempts is EmbeddingsConfig.MaxAttempts when it is 0.
const defaultAttempts = 6

const (
	// halfAttempts is how often a half of a batch is asked for that failed as a whole: by then the endpoint has had its
	// chances, and what is looked for is the text that it can't embed.
	halfAttempts = 2
	// hopeless is the number of texts in a batch that, each refused by itself, show that the texts are not to blame.
	hopeless = 4
)

// PassageFailure is a passage that an endpoint refuses.
type PassageFailure struct {
	Index int    // among the passages given
	Text  string // its beginning
	Err   error
}

// PassageError says which passages got no vector. The others did.
type PassageError struct {
	Failed []PassageFailure // by Index
	Of     int              // passages given
}

func (e *PassageError) Error() string {
	f := e.Failed[0]
	more := ""
	if len(e.Failed) > 1 {
		more = fmt.Sprintf(", and %d more", len(e.Failed)-1)
	}
	return fmt.Sprintf("llm: passage %d of %d (%q) has no vector%s: %v", f.Index+1, e.Of, f.Text, more, f.Err)
}

// Unwrap returns the cause of the first.
func (e *PassageError) Unwrap() error { return e.Failed[0].Err }

// Embeddings is an Embedder behind /embeddings.
//
// Passages are sent in batches bounded in items and tokens. A batch that the endpoint refuses as a whole is halved, and
// the size that it took is kept for the batches that follow; what is refused alone is named in a *PassageError. Every
// vector is checked: their number, their width, and that each number is finite and not all are zero. A reply that fails
// is asked for again.
type Embeddings struct {
	cfg  EmbeddingsConfig
	to   *endpoint
	deps Deps

	known known

	mu       sync.Mutex
	maxItems int       // learned
	width    int       // learned, unless declared
	loading  time.Time // since when the server has said that it isn't ready, without an answer in between
}

func newEmbeddings(cfg EmbeddingsConfig, to *endpoint, deps Deps) *Embeddings {
	if cfg.MaxAttempts == 0 {
		cfg.MaxAttempts = defaultAttempts
	}
	return &Embeddings{cfg: cfg, to: to, deps: deps, maxItems: cfg.BatchItems, width: cfg.Width}
}

// NewEmbedder returns the embedder that the configuration names.
func NewEmbedder(cfg EmbeddingsConfig, deps Deps) (Embedder, error) {
	deps = deps.filled()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Provider == ProviderLexical {
		return Lexical{}, nil
	}
	key, err := readKey(cfg.section(), cfg.APIKey, cfg.APIKeyFile)
	if err != nil {
		return nil, err
	}
	to, err := newEndpoint(endpointConfig{
		section: cfg.section(), base: cfg.BaseURL, key: key, timeout: cfg.Timeout, limit: maxEmbeddingReply, caFile: cfg.CAFile, headers: cfg.Headers,
		transport: deps.Transport,
	})
	if err != nil {
		return nil, err
	}
	return newEmbeddings(cfg, to, deps), nil
}

// Name returns "openai/" and the model.
func (e *Embeddings) Name() string { return e.cfg.Name() }

// Embed returns a vector for each passage. With a *PassageError, the vectors of the passages that it doesn't name are
// there, and those of the others nil.
func (e *Embeddings) Embed(ctx context.Context, passages []string) ([][]float32, error) {
	job := &embedding{e: e, out: make([][]float32, len(passages))}
	texts := make([]string, len(passages))
	tokens := make([]int, len(passages))
	for i, p := range passages {
		texts[i] = e.cfg.PassagePrefix + p
		tokens[i] = e.deps.Counter.Count(texts[i])
	}
	for from := 0; from < len(texts); {
		to := e.batch(tokens, from)
		before := len(job.failed)
		if err := job.run(ctx, texts, tokens, from, to, e.cfg.MaxAttempts); err != nil {
			return nil, err
		}
		if n := len(job.failed) - before; n == to-from && n >= hopeless && kindOf(job.failed[before].Err) != TooLong {
			return nil, job.failed[before].Err // the fault is not in the texts
		}
		from = to
	}
	if len(job.failed) > 0 {
		return job.out, &PassageError{Failed: job.failed, Of: len(passages)}
	}
	return job.out, nil
}

// EmbedQuery returns the vector of a query.
func (e *Embeddings) EmbedQuery(ctx context.Context, query string) ([]float32, error) {
	text := e.cfg.QueryPrefix + query
	job := &embedding{e: e, out: make([][]float32, 1)}
	if err := job.run(ctx, []string{text}, []int{e.deps.Counter.Count(text)}, 0, 1, e.cfg.MaxAttempts); err != nil {
		return nil, err
	}
	if len(job.failed) > 0 {
		return nil, job.failed[0].Err
	}
	return job.out[0], nil
}

// batch returns where the batch that begins at from ends.
func (e *Embeddings) batch(tokens []int, from int) int {
	e.mu.Lock()
	items := e.maxItems
	e.mu.Unlock()
	to, sum := from, 0
	for to < len(tokens) && to-from < items && (to == from || sum+tokens[to] <= e.cfg.BatchTokens) {
		sum += tokens[to]
		to++
	}
	return to
}

// refuse learns from a batch that was refused as a whole that so many items are too many.
func (e *Embeddings) refuse(items int) {
	e.deps.Stats.Halved.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.maxItems = max(1, min(e.maxItems, items/2))
}

// embedding is the work on the passages of one call.
type embedding struct {
	e      *Embeddings
	out    [][]float32
	failed []PassageFailure
}

// run embeds texts[from:to], halving them while the endpoint refuses them together.
func (j *embedding) run(ctx context.Context, texts []string, tokens []int, from, to, attempts int) error {
	sum := 0
	for _, n := range tokens[from:to] {
		sum += n
	}
	vectors, err := j.e.ask(ctx, texts[from:to], sum, attempts)
	if err == nil {
		copy(j.out[from:to], vectors)
		return nil
	}
	var call *Error
	if !errors.As(err, &call) {
		return err
	}
	switch call.Kind {
	case TooLong, Invalid, BadAnswer:
	case Transient:
		// A server that fails on one text, or on too much at once, answers others; one that is away doesn't.
		if call.Status < http.StatusInternalServerError || !j.alive(ctx) {
			return err
		}
	default:
		return err
	}
	if to-from == 1 {
		j.failed = append(j.failed, PassageFailure{Index: from, Text: excerpt(texts[from]), Err: err})
		return nil
	}
	before := len(j.failed)
	middle := from + (to-from)/2
	for _, half := range [][2]int{{from, middle}, {middle, to}} {
		if err := j.run(ctx, texts, tokens, half[0], half[1], min(attempts, halfAttempts)); err != nil {
			return err
		}
	}
	if call.Kind != BadAnswer && len(j.failed) == before { // no text is to blame, but their number
		j.e.refuse(to - from)
	}
	return nil
}

// alive reports whether the endpoint embeds a text that nothing is wrong with.
func (j *embedding) alive(ctx context.Context) bool {
	const plain = "A plain sentence."
	_, err := j.e.ask(ctx, []string{plain}, j.e.deps.Counter.Count(plain), 1)
	return err == nil
}

// ask sends one request until it is answered with good vectors, is refused, or has failed too often.
func (e *Embeddings) ask(ctx context.Context, texts []string, tokens, attempts int) ([][]float32, error) {
	var throttled time.Time
	try := attempt{parameters: e.known.get()}
	for tries := 1; ; {
		vectors, err := e.once(ctx, texts, tokens, &try.parameters)
		var call *Error
		if err == nil {
			e.known.keep(try.parameters)
		}
		if err == nil || !errors.As(err, &call) {
			return vectors, err
		}
		switch {
		case call.Kind == Throttled:
			e.deps.Stats.Throttled.Add(1)
			if throttled.IsZero() {
				throttled = time.Now()
			}
			if time.Since(throttled)+call.RetryAfter > longestThrottle {
				return nil, call.until(time.Now())
			}
			if err := WaitErr(ctx); err != nil {
				return nil, err
			}
			continue
		case try.without(err):
			continue
		case call.Kind == BadAnswer && call.Reason == BadVectors:
			e.deps.Stats.BadVectors.Add(1)
		case call.Kind != Transient && call.Kind != Unreachable:
			return nil, err
		default:
			e.deps.Stats.Failed.Add(1)
		}
		throttled = time.Time{}
		if tries >= attempts && !e.loads(call) {
			return nil, err
		}
		e.deps.Log.Debug("embeddings are asked for again", "endpoint", e.to.name, "try", tries, "error", err)
		sleep(ctx, backoff(tries, e.deps.Jitter), nil)
		if err := WaitErr(ctx); err != nil {
			return nil, err
		}
		tries++
	}
}

// longestLoading is how long a server is waited for that is there and says that what is behind it isn't yet.
const longestLoading = 3 * time.Minute

// loads reports whether a call that failed often enough is tried on all the same: its server is loading the model, and has not been for
// too long.
func (e *Embeddings) loads(call *Error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if call.Status != http.StatusBadGateway && call.Status != http.StatusServiceUnavailable && call.Status != http.StatusGatewayTimeout {
		return false
	}
	if e.loading.IsZero() {
		e.loading = time.Now()
		e.deps.Log.Warn("the embedder's server is there but not ready; waiting for it", "endpoint", e.to.name, "status", call.Status)
	}
	return time.Since(e.loading) < longestLoading
}

// once sends one request.
func (e *Embeddings) once(ctx context.Context, texts []string, tokens int, p *parameters) (vectors [][]float32, err error) {
	permit, err := e.deps.Limiter.Acquire(ctx, e.to.name, Need{InputTokens: tokens})
	if err != nil {
		return nil, err
	}
	e.deps.Stats.EmbeddingCalls.Add(1)
	took := 0
	ctx, called := e.deps.Observer.Calling(ctx)
	defer func() { called(Need{InputTokens: took}, err) }()
	body := map[string]any{"model": e.cfg.Model, "input": texts}
	maps.Copy(body, e.cfg.Extra)
	if p.sends("encoding_format") {
		body["encoding_format"] = "float" // some servers default to base64, and some clients read that as floats
	}
	raw, err := e.to.post(ctx, "/embeddings", body)
	permit.Done(outcome(err, Need{InputTokens: tokens}))
	if err != nil {
		return nil, err
	}
	rows, used, err := e.parse(raw)
	if err != nil {
		return nil, err
	}
	took = max(used, 0)
	e.deps.Stats.EmbeddingTokens.Add(int64(took))
	return e.accept(rows, len(texts))
}

// accept checks vectors, puts them in order and brings them to unit length.
func (e *Embeddings) accept(rows []row, want int) ([][]float32, error) {
	bad := func(format string, args ...any) error {
		return &Error{Kind: BadAnswer, Reason: BadVectors, Endpoint: e.to.name, Message: fmt.Sprintf(format, args...)}
	}
	if len(rows) != want {
		return nil, bad("%d vectors for %d texts", len(rows), want)
	}
	inOrder(rows)
	out := make([][]float32, want)
	for i, r := range rows {
		if len(r.vector) == 0 || len(r.vector) != len(rows[0].vector) {
			return nil, bad("vectors of different widths: %d and %d", len(rows[0].vector), len(r.vector))
		}
		if problem := normalize(r.vector); problem != "" {
			return nil, bad("the vector of text %d of %d %s", i+1, want, problem)
		}
		out[i] = r.vector
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loading = time.Time{}
	width := len(out[0])
	if e.width == 0 {
		e.width = width
	}
	if width != e.width {
		return nil, bad("vectors %d wide; they must be %d wide as those before", width, e.width)
	}
	return out, nil
}

// inOrder sorts vectors by their indices, if these are 0 to n-1, each once. Some servers number otherwise, or not at all:
// then the order in which they came is that of the texts.
func inOrder(rows []row) {
	seen := make([]bool, len(rows))
	for _, r := range rows {
		if r.index < 0 || r.index >= len(rows) || seen[r.index] {
			return
		}
		seen[r.index] = true
	}
	slices.SortFunc(rows, func(a, b row) int { return a.index - b.index })
}

// normalize brings a vector to unit length, or says why it can't be.
func normalize(v []float32) string {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return "holds a number that isn't finite"
	}
	if sum == 0 {
		return "is all zeros"
	}
	scale := 1 / math.Sqrt(sum)
	if math.IsInf(scale, 0) {
		return "is all but zero"
	}
	for i, x := range v {
		v[i] = float32(float64(x) * scale)
	}
	return ""
}

// excerpt returns the beginning of a text on one line.
func excerpt(s string) string {
	s = oneLine(s)
	const limit = 60
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:limit])) + "…"
}

var _ Embedder = (*Embeddings)(nil)
