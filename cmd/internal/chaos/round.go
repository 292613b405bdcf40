package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/client"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

// row is a ready-made chunk, as aerie ingest takes it.
type row struct {
	ID       string `json:"id"`
	Document string `json:"document_id"`
	Index    int    `json:"chunk_index"`
	Text     string `json:"text"`
}

// rowsOf returns the leaves in the words of a round, so that no answer of another round serves it. No two begin alike: a summary that
// says the same again and again is refused.
func (t *test) rowsOf(k int) []row {
	rows := make([]row, len(t.leaves))
	for i, leaf := range t.leaves {
		// Documents of forty chunks; the leaves' own may be a single large one.
		rows[i] = row{ID: fmt.Sprint(i), Document: fmt.Sprintf("d%03d", i/40), Index: i % 40, Text: fmt.Sprintf("Leaf %d-%d: %s", k, i, leaf.Text)}
	}
	return rows
}

// nodes are the nodes of one generation: text by id. Leaves are told apart, since they don't wait for a generation.
type nodes struct{ leaves, summaries map[tree.ID]string }

// round builds the generations of a corpus of its own under faults, each grown from the one before; what changes comes while that is
// being built.
func (t *test) round(ctx context.Context, k int) (tally, error) {
	corpus := fmt.Sprintf("round-%d", k)
	before := t.endpoint.Counts().ChatOK
	home := filepath.Join(t.folder, corpus)
	changes, err := t.changesOf(k, corpus)
	if err != nil {
		return tally{}, err
	}
	var want []nodes
	for _, change := range changes {
		n, err := t.undisturbed(ctx, home, corpus, change)
		if err != nil {
			return tally{}, fmt.Errorf("undisturbed: %w", err)
		}
		want = append(want, n)
	}
	sum := tally{rounds: 1, undisturbed: t.endpoint.Counts().ChatOK - before}
	sizes := []string{}
	for _, n := range want {
		sizes = append(sizes, fmt.Sprint(len(n.summaries)))
	}
	t.say("round %d: generations of %s summaries; %d calls undisturbed", k, strings.Join(sizes, ", "), sum.undisturbed)

	before = t.endpoint.Counts().ChatOK
	reading, stop := context.WithCancel(ctx)
	readers := newReaders(t.fleet, corpus, want)
	var group sync.WaitGroup
	group.Go(func() { readers.readTrees(reading) })
	group.Go(func() { readers.query(reading, t.leaves[0].Text) })
	err = t.generations(ctx, corpus, changes, want)
	stop()
	group.Wait()
	sum.paid = t.endpoint.Counts().ChatOK - before
	sum.trees, sum.queries = readers.trees, readers.queries
	t.say("  %d calls paid; %d trees and %d queries read", sum.paid, sum.trees, sum.queries)
	return sum, errors.Join(err, readers.wrong)
}

func (t *test) generations(ctx context.Context, corpus string, changes []change, want []nodes) error {
	if err := t.apply(ctx, corpus, changes[0]); err != nil {
		return err
	}
	for g := range want {
		next, seen := change{}, want[g]
		if g+1 < len(want) {
			next, seen.leaves = changes[g+1], want[g+1].leaves // they don't wait for a generation
		}
		if err := t.build(ctx, corpus, g+1, next); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
		if err := t.compare(ctx, corpus, g+1, seen, false); err != nil {
			return fmt.Errorf("generation %d: %w", g+1, err)
		}
	}
	return t.backAndForth(ctx, corpus, want)
}

// backAndForth lets readers see the generation before the last and the last again, while things break.
func (t *test) backAndForth(ctx context.Context, corpus string, want []nodes) error {
	breaking, stop := context.WithCancel(ctx)
	defer stop()
	broken := make(chan error, 1)
	go func() { broken <- t.faults.run(breaking, corpus) }()
	last := len(want) - 1
	var err error
	for turn := 0; turn < 4 && err == nil; turn++ {
		forward, generation := turn%2 == 1, last+turn%2
		err = t.fleet.ask(ctx, func(c *client.Client) error {
			_, err := c.Rollback(ctx, corpus, forward)
			if now, lost := c.Status(ctx, corpus); err != nil && lost == nil && now.Corpora[0].Generation == generation {
				return nil // done before, and the answer was lost
			}
			return err
		})
		if err == nil {
			// What rests on documents that went since has no text any more in the tree that is kept.
			err = t.compare(ctx, corpus, generation, nodes{want[last].leaves, want[generation-1].summaries}, !forward)
		}
	}
	stop()
	if err := errors.Join(err, <-broken); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	t.say("  two rollbacks, and forward again")
	return nil
}

// build asks for a build, breaks things until it rests, and looks at how it ended. Meanwhile the change that comes next arrives.
func (t *test) build(ctx context.Context, corpus string, generation int, next change) error {
	breaking, stop := context.WithCancel(ctx)
	defer stop()
	broken, arrived := make(chan error, 1), make(chan error, 1)
	go func() { broken <- t.faults.run(breaking, corpus) }()
	go func() {
		err := t.untilPlanned(ctx, corpus, generation)
		if err == nil {
			err = t.apply(ctx, corpus, next)
		}
		arrived <- err
	}()
	state, err := t.untilRest(ctx, corpus, fmt.Sprintf("%s-%d", corpus, generation))
	stop()
	if err := errors.Join(err, <-broken, <-arrived); err != nil {
		return err
	}
	if state.Status != levels.Built {
		return fmt.Errorf("build %s is %s: %s", state.Build, state.Status, state.Why)
	}
	for _, l := range state.Levels {
		if l.Done != l.Total || l.Dead != 0 {
			return fmt.Errorf("level %d: %d expected, %d done, %d dead", l.Level, l.Total, l.Done, l.Dead)
		}
		queued, err := t.fleet.places.Queue().Queued(ctx, levelOf(corpus, state.Build, l.Level))
		if err != nil {
			return err
		}
		if len(queued) > 0 {
			return fmt.Errorf("level %d: all tasks are done, and %d are still queued", l.Level, len(queued))
		}
	}
	return nil
}

// untilRest waits for the build of a generation. Its state is read from where it is kept, as a coordinator would.
func (t *test) untilRest(ctx context.Context, corpus, key string) (*levels.State, error) {
	begun := ""
	err := t.fleet.ask(ctx, func(c *client.Client) error {
		b, err := c.Start(ctx, corpus, api.Start{BuildRequest: api.BuildRequest{Force: true}, Key: key})
		begun = b.Build
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("starting: %w", err)
	}
	if begun == "" {
		return nil, errors.New("nothing was to do")
	}
	for {
		state, err := t.fleet.places.Builds.Load(ctx, corpus)
		if err == nil && state.Resting() {
			if state.Build != begun {
				return nil, fmt.Errorf("build %s was begun, and %s rests", begun, state.Build)
			}
			return state, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// compare reads the fleet's tree and compares it with the undisturbed one, texts included.
func (t *test) compare(ctx context.Context, corpus string, generation int, want nodes, emptied bool) error {
	var got nodes
	err := t.fleet.ask(ctx, func(c *client.Client) error {
		got = nodes{map[tree.ID]string{}, map[tree.ID]string{}}
		return c.Nodes(ctx, api.TreeRequest{Corpus: corpus, Text: true}, func(h api.TreeHead) error {
			if h.Generation != generation {
				return fmt.Errorf("generation %d is served", h.Generation)
			}
			return nil
		}, func(n *api.Node) error { got.put(n); return nil })
	})
	if err != nil {
		return err
	}
	return errors.Join(differences("leaf", got.leaves, want.leaves, false), differences("summary", got.summaries, want.summaries, emptied))
}

func (n nodes) put(one *api.Node) {
	if one.Level == 0 {
		n.leaves[one.ID] = one.Text
	} else {
		n.summaries[one.ID] = one.Text
	}
}

// differences compares texts by id. With emptied, one that isn't there any more is none.
func differences(what string, got, want map[tree.ID]string, emptied bool) error {
	missing, other := 0, 0
	for id, text := range want {
		if have, ok := got[id]; !ok {
			missing++
		} else if have != text && !(emptied && have == "") {
			other++
		}
	}
	if extra := len(got) - (len(want) - missing); missing+other+extra > 0 {
		return fmt.Errorf("%s by %s, of %d undisturbed: %d are missing, %d have another text, %d are not in it", what, what, len(want), missing, other, extra)
	}
	return nil
}

// undisturbed makes a change and builds in a home of its own, and returns the tree.
func (t *test) undisturbed(ctx context.Context, home, corpus string, c change) (nodes, error) {
	steps := [][]string{{"ingest", c.file}}
	if len(c.gone) > 0 {
		steps = append(steps, append([]string{"delete"}, c.gone...))
	}
	for _, args := range append(steps, []string{"build", "--force"}) {
		if _, err := t.aerie(ctx, home, corpus, args...); err != nil {
			return nodes{}, err
		}
	}
	text, err := t.aerie(ctx, home, corpus, "tree", "--output", "jsonl")
	if err != nil {
		return nodes{}, err
	}
	all := nodes{map[tree.ID]string{}, map[tree.ID]string{}}
	lines := json.NewDecoder(bytes.NewReader(text))
	for lines.More() {
		var n api.Node
		if err := lines.Decode(&n); err != nil {
			return nodes{}, err
		}
		all.put(&n)
	}
	return all, nil
}

// aerie runs a command of the embedded mode with the fleet's models.
func (t *test) aerie(ctx context.Context, home, corpus string, args ...string) ([]byte, error) {
	args = append(args, "--home", home, "--corpus", corpus)
	if args[0] == "build" {
		args = append(args, "--summaries.provider", "openai", "--summaries.base_url", t.endpoint.URL(), "--summaries.model", "fake", "--build.slots", fmt.Sprint(slots*workers))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(t.bin, "aerie"), args...)
	cmd.Dir = t.folder
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("aerie %s: %w: %s%s", args[0], err, said.String(), out)
	}
	return out, nil
}

func (t *test) write(name string, rows []row) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return "", err
		}
	}
	path := filepath.Join(t.folder, name)
	return path, os.WriteFile(path, b.Bytes(), 0o644)
}

// readLeaves has aerie cut the text into leaves.
func (t *test) readLeaves(ctx context.Context, text string) ([]row, error) {
	if text == "" {
		var err error
		if text, err = t.goComments(ctx); err != nil {
			return nil, err
		}
	}
	text, err := filepath.Abs(text)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(t.folder, "text")
	if _, err := t.aerie(ctx, home, "text", "ingest", text); err != nil {
		return nil, err
	}
	out, err := t.aerie(ctx, home, "text", "tree", "--output", "jsonl")
	if err != nil {
		return nil, err
	}
	var rows []row
	lines := json.NewDecoder(bytes.NewReader(out))
	for lines.More() {
		var n api.Node
		if err := lines.Decode(&n); err != nil {
			return nil, err
		}
		rows = append(rows, row{Document: cmp.Or(n.DocumentID, "d"), Index: n.ChunkIndex, Text: n.Text})
	}
	if len(rows) < 200 {
		return nil, fmt.Errorf("%s has %d leaves; 200 are needed for a build that lasts", text, len(rows))
	}
	return rows, nil
}
