package levels

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Rule is the growth rule's setting.
type Rule struct {
	// Manual says that nothing starts by itself, not even the first build of a corpus; what was begun goes on.
	Manual bool
	// Threshold is the share of change since the last published build at which a build is due; above 0.
	Threshold float64
	// Scope and KeepLeaves are those that the next build would have.
	Scope      tree.Scope
	KeepLeaves bool
}

// Decision is what the growth rule says.
type Decision struct {
	// Due: a build should start by itself.
	Due bool
	// Differs: the published tree has another scope than the one asked for. A person who asks for a build
	// means this one; nothing starts by itself because of it.
	Differs bool
	// Why is one sentence.
	Why string
	// Growth is the share of change, or nil when there is nothing to compare with.
	Growth *float64
}

// Decide applies the rule to a corpus that holds a number of leaves now.
//
// Growth = (changes now - changes at the baseline) / leaves at the baseline, where a change is a leaf added,
// removed or replaced. A missing baseline is unknown and not zero: taken for zero it would start a whole paid
// build.
func (r Rule) Decide(c *Corpus, leaves int) Decision {
	var d Decision
	if c.Settings != nil && (c.Settings.Scope != r.Scope || c.Settings.KeepLeaves != r.KeepLeaves) {
		d.Differs = true
	}
	switch {
	case c.Generation == 0 && leaves == 0:
		d.Why = "the corpus has no leaves"
	case c.Generation == 0:
		d.Due, d.Why = true, "the first build"
	case c.Baseline == nil:
		d.Why = fmt.Sprintf("what generation %d was built from is unknown, so growth can't be told; build by force to set it", c.Generation)
	default:
		d.Growth = growth(c)
		d.Due = *d.Growth >= r.Threshold
		d.Why = fmt.Sprintf("the corpus has changed by %s since generation %d, the threshold is %s",
			percent(*d.Growth), c.Generation, percent(r.Threshold))
	}
	if d.Differs && !d.Due {
		d.Why += fmt.Sprintf("; the published tree has scope %s (keep_leaves %t), asked for is %s (keep_leaves %t)",
			c.Settings.Scope, c.Settings.KeepLeaves, r.Scope, r.KeepLeaves)
	}
	return d
}

func growth(c *Corpus) *float64 {
	changed := float64(c.Changes - c.Baseline.Changes)
	base := float64(max(c.Baseline.Leaves, 1))
	g := changed / base
	return &g
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
