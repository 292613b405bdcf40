package clustering

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/aerie-rag/aerie/internal/clustering/kernel"
)

// Cluster groups the rows of one level. The result depends on cfg and in only: not on the number of cores, nor on which
// instructions the processor has. It holds for every result with clusters:
//
//   - each row is in at least one cluster, there are at least two clusters, and no two are equal;
//   - no cluster has more than cfg.MaxClusterTokens, but for a single row that is itself over it;
//   - there are at most 0.7·N clusters, and at least ⌈N/t⌉ for the target size t;
//   - at most a tenth of the tokens are in a further cluster beside their best.
//
// Where these can't all hold the result has no clusters and says why in Stopped. Errors: what [Config.Validate] says, a
// *[RowError], a *[MemoryError], or ctx's.
func Cluster(ctx context.Context, cfg Config, in Input) (Result, error) {
	return cluster(ctx, kernel.Machine{Set: kernel.Best(), Workers: runtime.GOMAXPROCS(0)}, cfg, in)
}

// cluster is Cluster on a given machine.
func cluster(ctx context.Context, m kernel.Machine, cfg Config, in Input) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	r := &run{machine: m, cfg: cfg, in: in, watch: newWatch(cfg.Progress)}
	if err := r.check(ctx); err != nil {
		return Result{}, err
	}
	if r.result.Stopped != "" {
		return r.result, nil
	}
	groups, err := r.partition(ctx)
	if err != nil {
		return Result{}, err
	}
	done := r.watch.stage("shape")
	s := r.shape(groups)
	err = s.settle(ctx)
	done()
	if err != nil {
		return Result{}, err
	}
	if s.stopped != "" {
		r.result.Stopped = s.stopped
	} else {
		r.result.Clusters = s.soften()
	}
	r.result.Stages = r.watch.stages
	return r.result, nil
}

// run is one call of Cluster.
type run struct {
	machine kernel.Machine
	cfg     Config
	in      Input
	rows    kernel.Rows // all rows of the input, unit length
	atoms   []atom
	least   int // clusters that there must be
	watch   *watch
	result  Result
}

// check looks at the input, and stops where no clusters can come of it.
func (r *run) check(ctx context.Context) error {
	defer r.watch.stage("check")()
	in, n := r.in, r.in.N
	scale, err := scales(ctx, r.machine.Workers, in)
	if err != nil {
		return err
	}
	if err := r.affordable(); err != nil {
		return err
	}
	r.rows = kernel.Rows{X: in.X, Dim: in.D, Scale: scale}
	r.least = r.cfg.least(n)
	if r.result.Stopped = hopeless(in, r.cfg.MaxClusterTokens, r.least); r.result.Stopped != "" {
		return nil
	}
	groups, err := copies(ctx, r.machine.Workers, in)
	if err != nil {
		return err
	}
	r.atoms = atoms(in, groups, r.cfg.MaxClusterTokens, r.least)
	return nil
}

// hopeless says why no clustering can shrink the level, if none can.
func hopeless(in Input, limit, least int) string {
	if in.N == 0 {
		return "no nodes"
	}
	if !shrinks(least, in.N) {
		return fmt.Sprintf("would not shrink: %d nodes can't make %d clusters", in.N, least)
	}
	large, total := 0, 0
	for _, t := range in.Tokens {
		total += min(t, limit) // a row over the cap is one cluster, not several
		if t > limit/2 {
			large++ // two of these are over the cap
		}
	}
	if need := max(large, quotient(total, limit)); !shrinks(need, in.N) {
		return notShrinking(in.N, min(need, in.N))
	}
	return ""
}

func notShrinking(n, clusters int) string {
	return fmt.Sprintf("would not shrink: %d nodes give %d clusters under the token cap", n, clusters)
}

// watch times the stages and tells the progress hook of them.
type watch struct {
	stages []Stage
	hook   func(stage string, done, total int)
}

func newWatch(hook func(string, int, int)) *watch { return &watch{hook: hook} }

// stage starts a stage; the function it returns ends it.
func (w *watch) stage(name string) func() {
	start := time.Now()
	w.progress(name, 0, 1)
	return func() {
		w.stages = append(w.stages, Stage{Name: name, Seconds: time.Since(start).Seconds()})
		w.progress(name, 1, 1)
	}
}

func (w *watch) progress(stage string, done, total int) {
	if w.hook != nil {
		w.hook(stage, done, total)
	}
}
