package levels_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/tree"
)

func TestRuleDecides(t *testing.T) {
	published := func(changes int64, baseline *levels.Baseline) *levels.Corpus {
		return &levels.Corpus{
			Generation: 3, Changes: changes, Baseline: baseline,
			Settings: &levels.Settings{Scope: tree.ScopeCorpus, KeepLeaves: true},
		}
	}
	base := &levels.Baseline{Leaves: 1000, Changes: 5000}
	for _, test := range []struct {
		name    string
		corpus  *levels.Corpus
		leaves  int
		scope   tree.Scope
		due     bool
		differs bool
		growth  float64 // -1: unknown
	}{
		{"nothing at all", &levels.Corpus{}, 0, tree.ScopeCorpus, false, false, -1},
		{"first build", &levels.Corpus{Changes: 7}, 7, tree.ScopeCorpus, true, false, -1},
		{"unchanged", published(5000, base), 1000, tree.ScopeCorpus, false, false, 0},
		{"just below", published(5099, base), 1099, tree.ScopeCorpus, false, false, 0.099},
		{"at the threshold", published(5100, base), 1100, tree.ScopeCorpus, true, false, 0.1},
		{"deletions count", published(5100, base), 900, tree.ScopeCorpus, true, false, 0.1},
		{"edits count", published(5100, base), 1000, tree.ScopeCorpus, true, false, 0.1},
		{"a missing baseline is unknown, not zero", published(9000, nil), 1000, tree.ScopeCorpus, false, false, -1},
		{"everything deleted", published(6000, base), 0, tree.ScopeCorpus, true, false, 1},
		{"from an empty corpus", published(5001, &levels.Baseline{Leaves: 0, Changes: 5000}), 1, tree.ScopeCorpus, true, false, 1},
		{"another scope is no growth", published(5000, base), 1000, tree.ScopeDocument, false, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			rule := levels.Rule{Threshold: 0.1, Scope: test.scope, KeepLeaves: true}
			d := rule.Decide(test.corpus, test.leaves)
			if d.Due != test.due || d.Differs != test.differs {
				t.Errorf("due %t, differs %t; want %t, %t (%s)", d.Due, d.Differs, test.due, test.differs, d.Why)
			}
			growth := -1.0
			if d.Growth != nil {
				growth = *d.Growth
			}
			if growth != test.growth {
				t.Errorf("growth %v, want %v", growth, test.growth)
			}
			if d.Why == "" {
				t.Error("no reason given")
			}
		})
	}
}

// TestDeletionsAreDue: a minute after the last deletion, whatever the threshold; and a tree of its own at once.
func TestDeletionsAreDue(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c := &levels.Corpus{
		Generation: 2, Changes: 105, Baseline: &levels.Baseline{Leaves: 100, Changes: 100, Deletions: 3},
		Settings: &levels.Settings{Scope: tree.ScopeCorpus}, Deletions: 4, Deleted: now.Add(-50 * time.Second),
	}
	rule := levels.Rule{Threshold: 0.1, Scope: tree.ScopeCorpus, DeleteDelay: time.Minute, Now: func() time.Time { return now }}
	if d := rule.Decide(c, 95); d.Due || !strings.Contains(d.Why, "due in 10s") {
		t.Errorf("after 50 seconds: %+v", d)
	}
	now = now.Add(10 * time.Second)
	if d := rule.Decide(c, 95); !d.Due || !strings.Contains(d.Why, "deleted") {
		t.Errorf("after a minute: %+v", d)
	}
	c.Baseline.Deletions = 4
	if d := rule.Decide(c, 95); d.Due {
		t.Errorf("built since: %+v", d)
	}
	rule.Scope, c.Settings.Scope = tree.ScopeDocument, tree.ScopeDocument
	if d := rule.Decide(c, 95); !d.Due {
		t.Errorf("a document has changed that has a tree of its own: %+v", d)
	}
}

func TestAdvice(t *testing.T) {
	c := &levels.Corpus{
		Generation: 5, Changes: 250, Coherence: 0.8,
		Full: &levels.FullBuild{Baseline: levels.Baseline{Leaves: 100, Changes: 200}, Generation: 2, Coherence: 0.82},
	}
	if got := levels.Advice(c); got != "" {
		t.Errorf("half as much has changed: %q", got)
	}
	c.Changes = 300
	if got := levels.Advice(c); !strings.Contains(got, "100.0 %") || !strings.Contains(got, "--full") {
		t.Errorf("as much has changed: %q", got)
	}
	c.Changes, c.Coherence = 201, 0.7
	if got := levels.Advice(c); !strings.Contains(got, "hold together") {
		t.Errorf("coherence fell: %q", got)
	}
	c.Full.Generation = 5
	if got := levels.Advice(c); got != "" {
		t.Errorf("just built in full: %q", got)
	}
}
