package natsqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// plans implements levels.Plans on an object store. Objects are zstd-compressed JSON; objects checks the SHA-256 of the
// compressed bytes, Plan.Verify that of the plan.
type plans struct{ objects objects }

func planName(level tree.Level) string {
	return fmt.Sprintf("%s%d", plansPrefix(level.Corpus, level.Build), level.Level)
}

func plansPrefix(corpus, build string) string {
	return "plan/" + token(corpus) + "/" + token(build) + "/"
}

const treePrefix = "tree/"

func treeName(corpus string) string { return treePrefix + token(corpus) }

func stateName(corpus string) string { return "state/" + token(corpus) }

// PutPlan implements levels.Plans.
func (p *plans) PutPlan(ctx context.Context, plan *levels.Plan) error {
	err := errors.Join(checkName("corpus", plan.Corpus), checkName("build", plan.Build))
	if err == nil {
		err = plan.Verify()
	}
	if err == nil {
		err = p.put(ctx, planName(plan.Of()), plan)
	}
	if err != nil {
		return fmt.Errorf("natsqueue: put plan of build %s level %d: %w", plan.Build, plan.Level, err)
	}
	return nil
}

// Plan implements levels.Plans.
func (p *plans) Plan(ctx context.Context, level tree.Level) (*levels.Plan, error) {
	plan := &levels.Plan{}
	err := p.get(ctx, planName(level), plan)
	if err == nil {
		err = plan.Verify()
	}
	if err == nil && plan.Of() != level {
		err = fmt.Errorf("it is the plan of corpus %s, build %s, level %d", plan.Corpus, plan.Build, plan.Level)
	}
	if err != nil {
		return nil, fmt.Errorf("natsqueue: plan of build %s level %d: %w", level.Build, level.Level, err)
	}
	return plan, nil
}

// PutTree implements levels.Plans.
func (p *plans) PutTree(ctx context.Context, corpus *levels.Corpus) error {
	err := checkName("corpus", corpus.Name)
	if err == nil {
		err = putNewer(ctx, p, treeName(corpus.Name), corpus, func(there *levels.Corpus) bool { return there.Version > corpus.Version })
	}
	if err != nil {
		return fmt.Errorf("natsqueue: put tree record of corpus %s: %w", corpus.Name, err)
	}
	return nil
}

// Tree implements levels.Plans.
func (p *plans) Tree(ctx context.Context, corpus string) (*levels.Corpus, error) {
	record := &levels.Corpus{}
	if err := p.get(ctx, treeName(corpus), record); err != nil {
		return nil, fmt.Errorf("natsqueue: tree record of corpus %s: %w", corpus, err)
	}
	return record, nil
}

// Trees implements levels.Plans.
func (p *plans) Trees(ctx context.Context) ([]string, error) {
	names, err := p.objects.names(ctx)
	if err != nil {
		return nil, fmt.Errorf("natsqueue: list tree records: %w", err)
	}
	var corpora []string
	for _, name := range names {
		encoded, ok := strings.CutPrefix(name, treePrefix)
		if !ok {
			continue
		}
		record := &levels.Corpus{} // the name is in the record; in the object's it is encoded
		if err := p.get(ctx, treePrefix+encoded, record); err != nil {
			if errors.Is(err, levels.ErrNotFound) {
				continue // dropped between the list and here
			}
			return nil, fmt.Errorf("natsqueue: %s: %w", name, err)
		}
		corpora = append(corpora, record.Name)
	}
	slices.Sort(corpora)
	return corpora, nil
}

// PutState implements levels.Plans.
func (p *plans) PutState(ctx context.Context, s *levels.State) error {
	err := checkName("corpus", s.Corpus)
	if err == nil {
		err = putNewer(ctx, p, stateName(s.Corpus), s, func(there *levels.State) bool { return there.Newer(s) })
	}
	if err != nil {
		return fmt.Errorf("natsqueue: put state of build %s: %w", s.Build, err)
	}
	return nil
}

// State implements levels.Plans.
func (p *plans) State(ctx context.Context, corpus string) (*levels.State, error) {
	state := &levels.State{}
	if err := p.get(ctx, stateName(corpus), state); err != nil {
		return nil, fmt.Errorf("natsqueue: state of corpus %s: %w", corpus, err)
	}
	return state, nil
}

// DropTree implements levels.Plans.
func (p *plans) DropTree(ctx context.Context, corpus string) error {
	err := errors.Join(p.objects.drop(ctx, stateName(corpus)), p.objects.drop(ctx, treeName(corpus)))
	if err != nil {
		return fmt.Errorf("natsqueue: drop tree record of corpus %s: %w", corpus, err)
	}
	return nil
}

// DropPlans implements levels.Plans.
func (p *plans) DropPlans(ctx context.Context, corpus, build string) error {
	prefix := plansPrefix(corpus, build)
	names, err := p.objects.names(ctx)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, prefix) {
			err = p.objects.drop(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("natsqueue: drop plans of build %s: %w", build, err)
	}
	return nil
}

func (p *plans) put(ctx context.Context, name string, v any) error {
	data, err := pack(v)
	if err != nil {
		return err
	}
	return p.objects.put(ctx, name, data)
}

// putNewer stores an object unless the one that is there is newer. Of writers at the same time each sees what the others have
// stored before it.
func putNewer[T any](ctx context.Context, p *plans, name string, v *T, newer func(there *T) bool) error {
	data, err := pack(v)
	if err != nil {
		return err
	}
	return p.objects.putUnless(ctx, name, data, func(old []byte) (bool, error) {
		var there T
		if err := unpack(old, &there); err != nil {
			return false, err
		}
		return newer(&there), nil
	})
}

func pack(v any) ([]byte, error) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(v), w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p *plans) get(ctx context.Context, name string, v any) error {
	raw, err := p.objects.get(ctx, name)
	if errors.Is(err, errNoObject) {
		return levels.ErrNotFound
	}
	if err != nil {
		return err
	}
	return unpack(raw, v)
}

func unpack(raw []byte, v any) error {
	r, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}
