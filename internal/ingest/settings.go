package ingest

import (
	"cmp"
	"fmt"
)

// settleCut decides what the documents of the request are cut with: what it says, else what the corpus's were cut with before, else what
// the configuration says. Leaves of a corpus that an older aerie began have no context unless somebody wants it, since each would be
// embedded again.
func (r *run) settleCut() {
	was := r.pin.cut
	if r.req.Context != nil {
		r.pin.cut.Context = *r.req.Context
	}
	r.tokens = cmp.Or(r.req.ChunkTokens, was.Tokens, r.in.cfg.ChunkTokens)
	if r.pin.before == nil {
		return
	}
	if was.Tokens != 0 && was.Tokens != r.tokens {
		r.report.warn(r.req.Corpus, fmt.Sprintf("the documents of the corpus were cut to leaves of %d tokens, and those that are read now are to %d; the others stay as they are", was.Tokens, r.tokens))
	}
	if was.Context != r.pin.cut.Context {
		with := map[bool]string{true: "with", false: "without"}
		r.report.warn(r.req.Corpus, fmt.Sprintf("the leaves of the corpus were made %s their headings as context, and those that are read now are %s; the others stay as they are", with[was.Context], with[r.pin.cut.Context]))
	}
}

// cuts notes that a document is cut.
func (r *run) cuts() {
	r.pin.Lock()
	r.pin.cut.Tokens = r.tokens
	r.pin.Unlock()
}
