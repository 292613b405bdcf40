package history

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// recorder keeps what clients did and were told.
type recorder struct {
	cfg   Config
	began time.Time
	stop  context.CancelFunc

	mu         sync.Mutex // guards what follows
	versions   int
	deleted    map[int]bool // versions that are deletions
	operations []porcupine.Operation
	ended      map[string]int // by what was done and how it ended
	total      int
	trees      map[int]map[string]bool // summaries by generation
	torn       []string                // what readers saw that is no whole generation
}

// Report is the judgment on a history.
type Report struct {
	// Operations is how many calls ended, and By says of which kinds and how.
	Operations int
	By         map[string]int
	// Generations is how many trees were seen.
	Generations int
	// Wrong says what can't be, in sentences; none: the history is linearizable by document, and every reader saw whole generations.
	Wrong []string
}

func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations (", r.Operations)
	for i, what := range slices.Sorted(maps.Keys(r.By)) {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", what, r.By[what])
	}
	fmt.Fprintf(&b, "), %d generations seen: ", r.Generations)
	if len(r.Wrong) == 0 {
		b.WriteString("linearizable by document, generations whole")
		return b.String()
	}
	fmt.Fprintf(&b, "WRONG\n  %s", strings.Join(r.Wrong, "\n  "))
	return b.String()
}

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

// version numbers a change.
func (r *recorder) version(deletion bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions++
	if deletion {
		r.deleted[r.versions] = true
	}
	return r.versions
}

// forgotten is how long a change may still happen, or go on, whose caller was told nothing: the process that had it in hand may wait
// for its turn, work, or be paused; its right runs out a while after.
const forgotten = 90 * time.Second

// change records a change of a document that call makes.
func (r *recorder) change(client int, document string, version int, call func() error) {
	began := r.now()
	err := call()
	ended := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	what := "put"
	if r.deleted[version] {
		what = "delete"
	}
	out := output{}
	switch {
	case err == nil:
		r.count(what + " ok")
	case refused(err):
		r.count(what + " refused")
		return
	default:
		r.count(what + " unknown")
		out.unknown, ended = true, ended+int64(forgotten)
	}
	for _, k := range []kind{begin, commit} {
		r.operations = append(r.operations, porcupine.Operation{
			ClientId: client, Input: input{k, document, version}, Call: began, Output: out, Return: ended,
		})
	}
}

// reading records what a reader saw of every document.
func (r *recorder) reading(client int, began int64, seen map[string][]leaf) {
	ended := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count("read ok")
	for i := range r.cfg.Documents {
		document := r.document(i)
		r.operations = append(r.operations, porcupine.Operation{
			ClientId: client, Input: input{kind: read, document: document}, Call: began, Output: output{seen: inOrder(seen[document])}, Return: ended,
		})
	}
}

// tree records the summaries that a reader saw at a generation; missing is how many of their children, summaries themselves, it
// didn't see.
func (r *recorder) tree(generation int, summaries map[string]bool, missing int) {
	if generation == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.trees[generation]
	if before == nil {
		r.trees[generation] = summaries
	}
	switch {
	case missing > 0:
		r.torn = append(r.torn, fmt.Sprintf("a reader of generation %d saw %d summaries, of which %d children are missing", generation, len(summaries), missing))
	case before != nil && !maps.Equal(before, summaries):
		r.torn = append(r.torn, fmt.Sprintf("a reader of generation %d saw %d summaries, another one %d others", generation, len(summaries), len(before)))
	}
}

// other records an operation that is judged by nothing but that it ended.
func (r *recorder) other(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		what += " ok"
	case refused(err):
		what += " refused"
	default:
		what += " failed"
	}
	r.count(what)
}

// count counts an operation, and ends the work after enough of them. The caller holds mu.
func (r *recorder) count(what string) {
	if r.ended == nil {
		r.ended = map[string]int{}
	}
	r.ended[what]++
	r.total++
	if r.total >= r.cfg.Operations && !time.Now().Before(r.cfg.Until) {
		r.stop()
	}
}

// searchTime bounds the search for an order of one document's operations.
const searchTime = time.Minute

// judge looks for an order of each document's operations.
func (r *recorder) judge() (Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := Report{Operations: r.total, By: r.ended, Generations: len(r.trees), Wrong: r.torn}
	m := model(r.deleted)
	by := map[string][]porcupine.Operation{}
	for _, op := range r.operations {
		document := op.Input.(input).document
		by[document] = append(by[document], op)
	}
	for _, document := range slices.Sorted(maps.Keys(by)) {
		result, info := porcupine.CheckOperationsVerbose(m, by[document], searchTime)
		switch result {
		case porcupine.Ok:
		case porcupine.Unknown:
			return report, fmt.Errorf("history: no order of the %d operations on %s was found or ruled out within %v", len(by[document]), document, searchTime)
		default:
			report.Wrong = append(report.Wrong, fmt.Sprintf("%s: no order of its %d operations makes every answer right%s", document, len(by[document]), r.stuck(document, by[document], m, info)))
		}
	}
	return report, nil
}

// stuck says where the search for an order came to its end, and leaves a picture of it.
func (r *recorder) stuck(document string, all []porcupine.Operation, m porcupine.Model, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, partial := range partition {
			if len(partial) > len(longest) {
				longest = partial
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "; %d can be ordered, the last of them:", len(longest))
	for _, op := range longest[max(0, len(longest)-4):] {
		fmt.Fprintf(&b, "\n    %s", describe(r.deleted, op.Input.(input), op.Output.(output)))
	}
	in := map[[3]any]bool{}
	for _, op := range longest {
		in[[3]any{op.Input, op.Call, op.Return}] = true
	}
	b.WriteString("\n  and then not")
	slices.SortStableFunc(all, func(a, b porcupine.Operation) int {
		return int(min(max(a.Return/2-b.Return/2, -1), 1))
	})
	left := 0
	for _, op := range all {
		if !in[[3]any{op.Input, op.Call, op.Return}] && !op.Output.(output).unknown && left < 3 {
			left++
			fmt.Fprintf(&b, "\n    %s", describe(r.deleted, op.Input.(input), op.Output.(output)))
		}
	}
	if r.cfg.Pictures == "" {
		return b.String()
	}
	picture := filepath.Join(r.cfg.Pictures, document+".html")
	if err := porcupine.VisualizePath(m, info, picture); err == nil {
		fmt.Fprintf(&b, "\n  a picture of it is in %s", picture)
	}
	return b.String()
}
