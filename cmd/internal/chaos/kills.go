package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/ingest"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm/llmtest"
)

// pace keeps a build going as long as processes are killed: of its prompts no larger share is answered than that of the kills that
// have happened. A prompt that was answered before is answered again, as nobody may have got it.
type pace struct {
	mu       sync.Mutex // guards what follows
	moved    *sync.Cond
	on       bool
	answered map[string]bool
	tasks    int
	done, of int // kills
}

func newPace() *pace {
	p := &pace{answered: map[string]bool{}}
	p.moved = sync.NewCond(&p.mu)
	return p
}

// answerTokens keeps answers short: comments of code say some things again and again, and an answer that does is refused.
const answerTokens = 50

// chat answers a prompt when its time has come.
func (p *pace) chat(prompt string, limit int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.on && !p.answered[prompt] && len(p.answered)*p.of >= p.done*p.tasks && p.done < p.of {
		p.moved.Wait()
	}
	p.answered[prompt] = true
	return llmtest.Summary(prompt, min(limit, answerTokens))
}

func (p *pace) start(tasks, kills int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on, p.answered, p.tasks, p.of = true, map[string]bool{}, tasks, kills
}

func (p *pace) killed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.moved.Broadcast()
	return p.done
}

// killing builds one tree while processes are killed so many times, servers included.
func (t *test) killing(ctx context.Context, kills int) error {
	const corpus = "killed"
	file, err := t.write("killed.jsonl", t.rowsOf(1))
	if err != nil {
		return err
	}
	before := t.endpoint.Counts().ChatOK
	want, err := t.undisturbed(ctx, t.folder+"/killed", corpus, change{file: file})
	if err != nil {
		return fmt.Errorf("undisturbed: %w", err)
	}
	tasks := t.endpoint.Counts().ChatOK - before
	t.say("one build of %d calls, and %d kills", tasks, kills)
	err = t.fleet.ask(ctx, func(c *client.Client) error {
		_, err := ingest.Remote{To: c}.Ingest(ctx, ingest.Request{Corpus: corpus, Paths: []string{file}})
		return err
	})
	if err != nil {
		return err
	}
	t.pace.start(tasks, kills)
	before = t.endpoint.Counts().ChatOK
	err = t.fleet.ask(ctx, func(c *client.Client) error {
		_, err := c.Start(ctx, corpus, api.Start{Key: "killed"})
		return err
	})
	if err != nil {
		return err
	}
	byName, err := t.killMany(ctx, kills)
	if err != nil {
		return err
	}
	state, err := t.rests(ctx, corpus)
	if err != nil {
		return err
	}
	if state.Status != levels.Built {
		return fmt.Errorf("build %s is %s: %v", state.Build, state.Status, state.Why)
	}
	if err := t.compare(ctx, corpus, 1, want, false); err != nil {
		return err
	}
	paid, allowed := t.endpoint.Counts().ChatOK-before, tasks+byName["worker"]*slots
	t.say("killed: %v; the tree is the undisturbed one; %d calls paid for %d tasks, %d allowed", byName, paid, tasks, allowed)
	if paid > allowed {
		return fmt.Errorf("%d calls were paid for, %d are allowed", paid, allowed)
	}
	return nil
}

// killMany kills one process after another, at random, and starts it again.
func (t *test) killMany(ctx context.Context, kills int) (map[string]int, error) {
	byName := map[string]int{}
	for n := 0; n < kills; {
		select {
		case <-ctx.Done():
			return byName, ctx.Err()
		case <-time.After(t.faults.between(50*time.Millisecond, 400*time.Millisecond)):
		}
		what, err := t.killAny(ctx)
		if err != nil {
			return byName, fmt.Errorf("after %d kills: %w", n, err)
		}
		byName[what]++
		if n = t.pace.killed(); n%100 == 0 {
			t.say("  %d kills: %v", n, byName)
		}
	}
	return byName, nil
}

// killAny kills a process, one of ten times a server.
func (t *test) killAny(ctx context.Context) (string, error) {
	if t.random.IntN(10) == 0 {
		switch t.random.IntN(3) {
		case 0:
			if err := t.stack.NATS.Kill(ctx); err != nil {
				return "", err
			}
			return "nats", t.stack.StartNATS(ctx)
		case 1:
			if err := t.stack.Redis.Kill(ctx); err != nil {
				return "", err
			}
			return "redis", t.stack.StartRedis(ctx)
		default:
			if err := t.stack.Weaviate.Kill(ctx); err != nil {
				return "", err
			}
			return "weaviate", t.stack.StartWeaviate(ctx)
		}
	}
	all := t.fleet.all()
	d := all[t.random.IntN(len(all))]
	d.kill()
	what := "coordinator"
	if d.program == t.fleet.workers[0].program {
		what = "worker"
	}
	return what, d.start()
}

// rests waits until the newest build of a corpus rests.
func (t *test) rests(ctx context.Context, corpus string) (*levels.State, error) {
	for {
		state, err := t.fleet.places.Builds.Load(ctx, corpus)
		if err == nil && state.Resting() {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
