package levels

// Published is what a corpus's record says of one tree.
type Published struct {
	Generation     int        `json:"generation"`
	Baseline       *Baseline  `json:"baseline,omitempty"`
	Settings       *Settings  `json:"settings,omitempty"`
	StoppedBecause string     `json:"stopped_because,omitempty"`
	Unseen         float64    `json:"unseen,omitempty"`
	Coherence      float64    `json:"coherence,omitempty"`
	Full           *FullBuild `json:"full,omitempty"`
	Summaries      int        `json:"summaries,omitempty"`
}

// Published returns what the record says of the tree that readers see; nil before the first.
func (c *Corpus) Published() *Published {
	if c.Generation == 0 {
		return nil
	}
	return &Published{
		Generation: c.Generation, Baseline: c.Baseline, Settings: c.Settings, StoppedBecause: c.StoppedBecause, Unseen: c.Unseen,
		Coherence: c.Coherence, Full: c.Full, Summaries: c.Summaries,
	}
}

// show makes readers see a tree.
func (c *Corpus) show(p *Published) {
	c.Newest = max(c.Newest, c.Generation)
	c.Generation, c.Baseline, c.Settings, c.StoppedBecause = p.Generation, p.Baseline, p.Settings, p.StoppedBecause
	c.Unseen, c.Coherence, c.Full, c.Summaries = p.Unseen, p.Coherence, p.Full, p.Summaries
}

// Publish makes readers see a new tree. With keep, the one before can be brought back.
func (c *Corpus) Publish(p *Published, keep bool) {
	before := c.Published()
	if !keep {
		before = nil
	}
	c.show(p)
	c.Newest = max(c.Newest, p.Generation)
	c.Before, c.Undone = before, nil
}

// Rollback makes readers see the tree before again, and reports whether there is one.
func (c *Corpus) Rollback() bool {
	if c.Before == nil {
		return false
	}
	undone := c.Published()
	c.show(c.Before)
	c.Before, c.Undone = nil, undone
	return true
}

// Forward takes a rollback back, and reports whether there was one.
func (c *Corpus) Forward() bool {
	if c.Undone == nil {
		return false
	}
	before := c.Published()
	c.show(c.Undone)
	c.Before, c.Undone = before, nil
	return true
}

// GiveUp lets go of the tree that could be brought back.
func (c *Corpus) GiveUp() {
	c.Newest = max(c.Newest, c.Generation)
	c.Before, c.Undone = nil, nil
}

// Kept returns the tree that can be brought back, nil if there is none.
func (c *Corpus) Kept() *Published {
	if c.Before != nil {
		return c.Before
	}
	return c.Undone
}

// Next returns the generation that the next build builds toward.
func (c *Corpus) Next() int { return max(c.Generation, c.Newest) + 1 }
