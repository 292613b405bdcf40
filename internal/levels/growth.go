package levels

import (
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Rule is the growth rule's setting.
type Rule struct {
	// Manual says that nothing starts by itself, not even the first build of a corpus; what was begun goes on.
	Manual bool
	// Threshold is the share of change since the last published build at which a build is due; above 0.
	Threshold float64
	// DeleteDelay is how long after the last deletion of a document a build is due that takes its text out of the summaries; at
	// least 0. It counts only with Now, the clock.
	DeleteDelay time.Duration
	Now         func() time.Time
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
	if c.Undone != nil && c.Undone.Baseline != nil {
		return r.rolledBack(c, leaves)
	}
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
		if !d.Due {
			r.purge(c, &d)
		}
		if !d.Due && !d.Differs && r.Scope == tree.ScopeDocument && *d.Growth > 0 {
			d.Due, d.Why = true, fmt.Sprintf("documents have changed since generation %d, and each has a tree of its own", c.Generation)
		}
	}
	if d.Differs && !d.Due {
		d.Why += fmt.Sprintf("; the published tree has scope %s (keep_leaves %t), asked for is %s (keep_leaves %t)",
			c.Settings.Scope, c.Settings.KeepLeaves, r.Scope, r.KeepLeaves)
	}
	return d
}

// rolledBack applies the rule to a corpus whose newest tree was rolled back: what led to that tree makes no build due again.
func (r Rule) rolledBack(c *Corpus, leaves int) Decision {
	as := *c
	as.Undone, as.Baseline, as.Generation = nil, c.Undone.Baseline, c.Undone.Generation
	d := r.Decide(&as, leaves)
	d.Why = fmt.Sprintf("generation %d was rolled back to %d; since then: %s", c.Undone.Generation, c.Generation, d.Why)
	return d
}

// purge makes a build due because documents were deleted, whose text must leave the summaries.
func (r Rule) purge(c *Corpus, d *Decision) {
	deleted := c.Deletions - c.Baseline.Deletions
	if r.Now == nil || deleted <= 0 {
		return
	}
	if left := r.DeleteDelay - r.Now().Sub(c.Deleted); left > 0 {
		d.Why += fmt.Sprintf("; deleted documents make one due in %s", left.Round(time.Second))
		return
	}
	d.Due, d.Why = true, fmt.Sprintf("documents were deleted since generation %d, and their text must leave the summaries", c.Generation)
}

func growth(c *Corpus) *float64 {
	changed := float64(c.Changes - c.Baseline.Changes)
	base := float64(max(c.Baseline.Leaves, 1))
	g := changed / base
	return &g
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// Advice says why a build in full is worth its cost, "" if nothing speaks for one: the corpus has changed by as much as it had
// when the tree was built in full, or its leaves hold together less than they did.
func Advice(c *Corpus) string {
	if c.Full == nil || c.Full.Generation == c.Generation {
		return ""
	}
	if change := float64(c.Changes-c.Full.Changes) / float64(max(c.Full.Leaves, 1)); change >= 1 {
		return fmt.Sprintf("the corpus has changed by %s since generation %d was built in full: aerie build --full", percent(change), c.Full.Generation)
	}
	if was := c.Full.Coherence; was > 0 && c.Coherence > 0 && c.Coherence < 0.95*was {
		return fmt.Sprintf("the leaves of a summary hold together %s less than in generation %d, which was built in full: aerie build --full",
			percent(1-c.Coherence/was), c.Full.Generation)
	}
	return ""
}
