package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/redisstate"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
	"github.com/aerie-rag/aerie/internal/weaviate"
)

// unreached says in one sentence that a server can't be reached. What it wraps tells programs the same.
type unreached struct {
	sentence string
	err      error
}

func (e *unreached) Error() string { return e.sentence }
func (e *unreached) Unwrap() error { return e.err }

// unreachable makes the error of a server that is away one sentence with a hint; any other error stays as it is. key is that of its
// address.
func unreachable(name, key, url string, err error) error {
	var told *api.Error
	if err == nil || errors.As(err, &told) || !coordinator.Away(err) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if !coordinator.Away(err) {
		err = fmt.Errorf("%w: %w", levels.ErrUnavailable, err)
	}
	return &api.Error{
		Err:  &unreached{fmt.Sprintf("%s at %s can't be reached: %s", name, withoutUser(url), why(err)), err},
		Hint: fmt.Sprintf("start it, or set %s (AERIE_%s) to where it listens", key, strings.ToUpper(strings.ReplaceAll(key, ".", "_"))),
		Exit: api.ExitUnreachable, Status: http.StatusServiceUnavailable,
	}
}

// withoutUser returns addresses without what stands before an @.
func withoutUser(urls string) string {
	scheme, rest, ok := strings.Cut(urls, "://")
	if !ok {
		return urls
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return scheme + "://" + rest
}

// why says what is wrong with a connection in a few words.
func why(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(text, "connection refused"):
		return "connection refused"
	case strings.Contains(text, "no such host"):
		return "no such host"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), strings.Contains(text, "deadline exceeded"), strings.Contains(text, "i/o timeout"):
		return "no answer in time"
	}
	return text[strings.LastIndex(text, ": ")+1:]
}

// OpenReader is Open for commands that only read. They wait for no more than what they need: a few seconds for the store, without which
// nothing is found, and for the state. With that away, records come from their copies, and what is known of builds is an error that
// says so.
func OpenReader(ctx context.Context, cfg *config.Config, dir string, log *slog.Logger) (*Places, error) {
	if cfg.Queue.URL == "" && cfg.State.URL == "" && cfg.Store.URL == "" {
		return Embedded(cfg, dir, log)
	}
	if err := cfg.Fleet(); err != nil {
		return nil, err
	}
	p := &Places{cfg: cfg, log: log, Fleet: true}
	if err := p.read(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// readerWait is how long a command that only reads waits for servers.
const readerWait = 3500 * time.Millisecond

func (p *Places) read(ctx context.Context) error {
	var state *redisstate.State
	var nodes *weaviate.Store
	var queueErr, stateErr, storeErr error
	bounded, cancel := context.WithTimeout(ctx, readerWait)
	defer cancel()
	var all sync.WaitGroup // none waits for another that is away
	all.Go(func() { queueErr = p.OpenQueue() })
	all.Go(func() { state, stateErr = redisstate.Connect(bounded, redisConfig(p.cfg, p.log)) })
	all.Go(func() { nodes, storeErr = weaviate.Connect(bounded, weaviateConfig(p.cfg)) })
	all.Wait()
	if state != nil {
		p.state = state
		p.close = append(p.close, state.Close)
	}
	if nodes != nil {
		p.close = append(p.close, nodes.Close)
	}
	if queueErr != nil {
		return unreachable("NATS", "queue.url", p.cfg.Queue.URL, queueErr)
	}
	if storeErr != nil {
		return unreachable("Weaviate", "store.url", p.cfg.Store.URL, storeErr)
	}
	p.Store = nodes
	p.Checks = []Check{{"nats", p.conn.Check}, {"weaviate", nodes.Check}}
	switch {
	case stateErr == nil:
		p.Store = store.Listed(nodes, state.Roster())
		p.Checks = append(p.Checks, Check{"redis", state.Check})
		p.Builds, p.Barrier, p.Members = coordinator.MirroredBuilds{Builds: state.Builds(), Plans: p.Plans()}, state.Barrier(), state.Members()
		p.Reading = &coordinator.ReadingCorpora{Corpora: state.Corpora(), Plans: p.Plans()}
	case coordinator.Away(stateErr), errors.Is(stateErr, context.DeadlineExceeded):
		away := awayState{unreachable("Redis", "state.url", p.cfg.State.URL, stateErr)}
		p.Builds, p.Barrier, p.Members = away, awayBarrier(away), away
		p.Reading = &coordinator.ReadingCorpora{Corpora: awayCorpora(away), Plans: p.Plans()}
	default:
		return stateErr
	}
	p.Corpora = p.Reading
	return nil
}

// awayState stands for a state that is away: whatever is read from it is that error. Only what readers call is here.
type awayState struct{ err error }

func (a awayState) Acquire(context.Context, string, levels.Right, string, time.Duration, int64) (levels.Lease, error) {
	return levels.Lease{}, a.err
}
func (a awayState) Renew(context.Context, levels.Lease, time.Duration) (levels.Lease, error) {
	return levels.Lease{}, a.err
}
func (a awayState) Check(context.Context, levels.Lease) error   { return a.err }
func (a awayState) Release(context.Context, levels.Lease) error { return a.err }
func (a awayState) Holder(context.Context, string, levels.Right) (string, error) {
	return "", a.err
}
func (a awayState) Save(context.Context, levels.Lease, *levels.State) error  { return a.err }
func (a awayState) Load(context.Context, string) (*levels.State, error)      { return nil, a.err }
func (a awayState) History(context.Context, string) ([]*levels.State, error) { return nil, a.err }
func (a awayState) Report(context.Context, string, levels.Progress) error    { return a.err }
func (a awayState) Progress(context.Context, string) (levels.Progress, error) {
	return levels.Progress{}, a.err
}
func (a awayState) RequestStop(context.Context, string, string, levels.Stop) error { return a.err }
func (a awayState) StopRequested(context.Context, string, string) (levels.Stop, error) {
	return levels.Stop{}, a.err
}
func (a awayState) Tell(context.Context, levels.Member) error        { return a.err }
func (a awayState) Members(context.Context) ([]levels.Member, error) { return nil, a.err }

type awayCorpora struct{ err error }

func (a awayCorpora) Load(context.Context, string) (*levels.Corpus, error)             { return nil, a.err }
func (a awayCorpora) Update(context.Context, string, func(*levels.Corpus) error) error { return a.err }
func (a awayCorpora) List(context.Context) ([]string, error)                           { return nil, a.err }
func (a awayCorpora) Drop(context.Context, string) error                               { return a.err }

type awayBarrier struct{ err error }

func (a awayBarrier) Open(context.Context, tree.Level, string, int) error { return a.err }
func (a awayBarrier) Mark(context.Context, tree.Level, string, ...levels.Mark) (levels.Count, error) {
	return levels.Count{}, a.err
}
func (a awayBarrier) Count(context.Context, tree.Level) (levels.Count, error) {
	return levels.Count{}, a.err
}
func (a awayBarrier) Positions(context.Context, tree.Level, levels.Outcome) ([]int, error) {
	return nil, a.err
}
func (a awayBarrier) Clear(context.Context, tree.Level, []int) error { return a.err }
func (a awayBarrier) Drop(context.Context, string, string) error     { return a.err }

// Reach asks servers whether they are there.
func (p *Places) Reach(ctx context.Context, needs ...service.Server) error {
	for _, c := range p.Checks {
		var err error
		switch {
		case c.Name == "nats" && slices.Contains(needs, service.ServerQueue):
			err = unreachable("NATS", "queue.url", p.cfg.Queue.URL, c.Ask(ctx))
		case c.Name == "weaviate" && slices.Contains(needs, service.ServerStore):
			err = unreachable("Weaviate", "store.url", p.cfg.Store.URL, c.Ask(ctx))
		case c.Name == "redis" && slices.Contains(needs, service.ServerState):
			err = unreachable("Redis", "state.url", p.cfg.State.URL, c.Ask(ctx))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
