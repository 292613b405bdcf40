package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/levels"
)

// pin is what the vectors of a corpus have in common.
type pin struct {
	sync.Mutex
	corpus string
	own    string // name of the configured embedder
	name   string // "" before the first vector
	width  int    // 0 before the first vector is there
	// cut is what documents are cut with from now on, and before what they were cut with; nil if that is unknown.
	cut    levels.Cut
	before *levels.Cut
}

// builtIn reports whether the configured embedder knows words and no meaning. Vectors of a model must not be mixed with its own.
func (p *pin) builtIn() bool { return strings.HasPrefix(p.own, "lexical") }

// check refuses a corpus that the configured embedder can't add to.
func (p *pin) check() error {
	if p.name == "" || p.name == p.own || p.name == levels.Given {
		return nil
	}
	return p.refusal(0)
}

// refusal is the error that says how to go on.
func (p *pin) refusal(width int) error {
	with := p.own
	if width > 0 {
		with = fmt.Sprintf("%s (%d wide)", p.own, width)
	}
	return &pinError{fmt.Sprintf("ingest: corpus %s holds vectors of %s (%d wide); this config embeds with %s. "+
		"Use `--embeddings.…` as before, another --corpus, or `aerie delete --all --yes` and ingest again", p.corpus, p.name, p.width, with)}
}

// pinError is an api.ErrPinned with a sentence of its own.
type pinError struct{ text string }

func (e *pinError) Error() string        { return e.text }
func (e *pinError) Is(target error) bool { return target == api.ErrPinned }

// admit decides whether a leaf that must be written fits to the vectors of the corpus; given is its ready-made vector, nil if it
// is to be embedded. The first leaf of a corpus decides for the others.
func (p *pin) admit(given []float32) error {
	p.Lock()
	defer p.Unlock()
	name := p.own
	if given != nil && p.builtIn() {
		name = levels.Given
	}
	switch {
	case p.name == "":
		p.name, p.width = name, len(given)
		return nil
	case p.name == name:
	case p.name == levels.Given && !p.builtIn():
	case given != nil:
		return fmt.Errorf("it brings a vector, but corpus %s holds vectors of %s, and the two must not be mixed; leave the vector out or name another --corpus", p.corpus, p.name)
	default:
		return fmt.Errorf("it has no vector, but corpus %s holds ready-made ones, with which those of %s must not be mixed; bring a vector or name another --corpus", p.corpus, p.own)
	}
	if given == nil {
		return nil
	}
	if p.width == 0 {
		p.width = len(given)
	}
	if p.width != len(given) {
		return fmt.Errorf("its vector is %d wide, those of corpus %s are %d", len(given), p.corpus, p.width)
	}
	return nil
}

// embedded checks the width of what the embedder returned.
func (p *pin) embedded(width int) error {
	p.Lock()
	defer p.Unlock()
	if p.width == 0 {
		p.width = width
	}
	if p.width != width {
		return p.refusal(width)
	}
	return nil
}

// load reads the pin of the corpus.
func (p *pin) load(ctx context.Context, corpora levels.Corpora) error {
	record, err := corpora.Load(ctx, p.corpus)
	switch {
	case errors.Is(err, levels.ErrNotFound):
		p.cut.Context = true
		return nil
	case err != nil:
		return fmt.Errorf("ingest: corpus %s: %w", p.corpus, err)
	}
	p.name, p.width, p.before = record.Embedder, record.Width, record.Cut
	if p.before != nil {
		p.cut = *p.before
	}
	return nil
}

// record raises the corpus's count of changes by n, and pins name and width at the first call of a corpus.
func (p *pin) record(ctx context.Context, corpora levels.Corpora, n int) error {
	p.Lock()
	defer p.Unlock()
	err := corpora.Update(ctx, p.corpus, func(c *levels.Corpus) error {
		switch {
		case c.Embedder == "":
			c.Embedder, c.Width = p.name, p.width
		case p.width != 0 && c.Width != 0 && (c.Embedder != p.name || c.Width != p.width):
			// Another process began the corpus meanwhile.
			return (&pin{corpus: p.corpus, own: p.name, name: c.Embedder, width: c.Width}).refusal(p.width)
		}
		c.Changes += int64(n)
		if p.cut != (levels.Cut{}) {
			cut := p.cut
			c.Cut = &cut
		}
		return nil
	})
	if err != nil && !errors.Is(err, api.ErrPinned) {
		return fmt.Errorf("ingest: corpus %s: %w", p.corpus, err)
	}
	return err
}
