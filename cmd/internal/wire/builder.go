package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/service"
)

// Builder coordinates builds whose tasks workers do, those of other processes or one beside it. When its context ends, a build is left
// running, for another coordinator to go on with. It implements service.Builder.
type Builder struct {
	Places *Places
	Models *Models
	// Holder names this process in leases.
	Holder string
	// TempDir takes the mapped vectors of large levels; "" means the system's.
	TempDir string
	// More may change a coordinator's dependencies before it is made; nil for none.
	More func(*coordinator.Deps)

	mu      sync.Mutex
	running map[*coordinator.Coordinator]string // the corpus of each that builds
}

// Waiting says for people what the builds that are coordinated here wait for themselves.
func (b *Builder) Waiting() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []string{}
	for coord, corpus := range b.running {
		if doing := coord.Doing(); strings.HasPrefix(doing, "waiting") {
			all = append(all, fmt.Sprintf("corpus %s: %s", corpus, doing))
		}
	}
	slices.Sort(all)
	return all
}

// Hint says that a worker of this process has marked a task: what builds here looks at its barrier at once.
func (b *Builder) Hint() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for coord := range b.running {
		coord.Hint()
	}
}

func (b *Builder) note(coord *coordinator.Coordinator, corpus string, runs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		b.running = map[*coordinator.Coordinator]string{}
	}
	delete(b.running, coord)
	if runs {
		b.running[coord] = corpus
	}
}

var _ service.Builder = (*Builder)(nil)

// Run implements service.Builder.
func (b *Builder) Run(ctx context.Context, corpus string, req coordinator.Request, _ api.BuildRequest) (api.BuildReport, error) {
	if _, err := b.Places.EmbedderOf(ctx, b.Models, corpus); err != nil {
		return api.BuildReport{}, err
	}
	coord, err := b.coordinator(corpus)
	if err != nil {
		return api.BuildReport{}, err
	}
	side, stop := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporter := coordinator.Reporter{Coordinator: coord, Hand: func() (int, int, []string) { return 0, 0, nil }}
	began := req.Began
	var once sync.Once
	req.Began = func(build string) {
		once.Do(func() { reporting.Go(func() { reporter.Run(side) }) }) // not before: the lease may be another's
		if began != nil {
			began(build)
		}
	}
	req.HandOver = true
	b.note(coord, corpus, true)
	defer b.note(coord, corpus, false)
	report, err := coord.Build(ctx, req)
	stop()
	reporting.Wait()
	return report, err
}

// Coordinator implements service.Builder.
func (b *Builder) Coordinator(_ context.Context, corpus string) (*coordinator.Coordinator, error) {
	return b.coordinator(corpus)
}

func (b *Builder) coordinator(corpus string) (*coordinator.Coordinator, error) {
	cfg := CoordinatorConfig(b.Places.cfg, corpus, b.Holder, b.TempDir, b.Models)
	return b.Places.Coordinator(cfg, b.Models, b.More)
}

// Purge implements service.Builder.
func (b *Builder) Purge(ctx context.Context, corpus, build string) error {
	if err := b.Places.Queue().Purge(ctx, corpus, build); err != nil {
		return err
	}
	return b.Places.Plans().DropPlans(ctx, corpus, build)
}
