package weaviate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/space"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// maxBatch is how many objects a batch holds at most.
const maxBatch = 1000

// Put implements [store.Store].
func (s *Store) Put(ctx context.Context, corpus string, nodes []tree.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(nodes) == 0 {
		return nil
	}
	p := put{s: s, corpus: corpus, failed: map[tree.ID]error{}}
	for try := 0; ; try++ {
		err := p.prepare(ctx, nodes)
		if err == nil {
			err = p.send(ctx)
		}
		if try == 0 && (isMissing(err) || err == nil && p.missing()) {
			s.forget(corpus) // the collection was dropped, or made anew without our properties
			continue
		}
		if err != nil {
			return fmt.Errorf("weaviate: corpus %s: put %d nodes: %w", corpus, len(nodes), err)
		}
		break
	}
	if len(p.failed) > 0 {
		return &store.PutError{Failed: p.failed}
	}
	return nil
}

// put is one Put under way.
type put struct {
	s      *Store
	corpus string
	c      *collection
	nodes  []*tree.Node // that are valid, each id once

	mu     sync.Mutex
	failed map[tree.ID]error
}

// prepare checks the nodes and brings the schema up to what they need.
func (p *put) prepare(ctx context.Context, nodes []tree.Node) error {
	c, err := p.s.lookup(ctx, p.corpus)
	if err != nil {
		return err
	}
	p.check(c, nodes)
	if c != nil && p.someWidth() {
		// The corpus may have been dropped and begun anew by somebody else.
		if c, err = p.s.refresh(ctx, p.corpus); err != nil {
			return err
		}
		p.check(c, nodes)
	}
	if len(p.nodes) == 0 {
		return nil
	}
	width := len(p.nodes[0].Vector)
	if p.c, err = p.s.ensure(ctx, p.corpus, width); err != nil {
		return err
	}
	if p.c.width != width { // another process was first
		p.check(p.c, nodes)
	}
	return p.extend(ctx)
}

// check sorts the nodes into those that can be sent and those that can't. Of several with one id the last counts.
func (p *put) check(c *collection, nodes []tree.Node) {
	clear(p.failed)
	p.nodes = p.nodes[:0]
	width := 0
	if c != nil {
		width = c.width
	}
	at := make(map[tree.ID]int, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		if err := checkNode(n, width); err != nil {
			p.failed[n.ID] = err
			continue
		}
		width = len(n.Vector)
		if j, ok := at[n.ID]; ok {
			p.nodes[j] = n
			continue
		}
		at[n.ID] = len(p.nodes)
		p.nodes = append(p.nodes, n)
	}
}

// checkNode is [store.CheckNode], and what the wire asks for beyond it.
func checkNode(n *tree.Node, width int) error {
	if err := store.CheckNode(n, width); err != nil {
		return err
	}
	texts := []string{n.DocumentID, n.Text, n.Context, n.Source, n.Path, n.Recipe, string(n.Scope)}
	for key, value := range n.Metadata {
		texts = append(texts, key)
		switch v := value.(type) {
		case string:
			texts = append(texts, v)
		case []string:
			texts = append(texts, v...)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%w: %.40q is not valid UTF-8", store.ErrInvalid, text)
		}
	}
	return nil
}

// missing reports whether the server didn't know the collection or a property.
func (p *put) missing() bool {
	for _, err := range p.failed {
		if isMissing(err) {
			return true
		}
	}
	return false
}

// someWidth reports whether a node was refused for its width.
func (p *put) someWidth() bool {
	for _, err := range p.failed {
		if errors.Is(err, store.ErrWidth) {
			return true
		}
	}
	return false
}

// extend adds the properties that the nodes need, and gives up those nodes whose metadata can't have one.
func (p *put) extend(ctx context.Context) error {
	wanted := map[string]map[kind]bool{}
	var demanded []string
	words, untrimmed := p.c.has(propWords), p.c.has(propUntrimmed)
	for _, n := range p.nodes {
		if !words && missedWords(n) != "" {
			words, demanded = true, append(demanded, propWords)
		}
		if !untrimmed && hasUntrimmed(n) {
			untrimmed, demanded = true, append(demanded, propUntrimmed)
		}
		if !n.IsLeaf() {
			continue
		}
		for key, value := range n.Metadata {
			if wanted[key] == nil {
				wanted[key] = map[kind]bool{}
			}
			for _, k := range kindsOf(value) {
				wanted[key][k] = true
			}
		}
	}
	var err error
	if p.c, err = p.s.ensureOnDemand(ctx, p.corpus, p.c, demanded...); err != nil {
		return err
	}
	for range 3 { // another process may take a name with another type; then the key gets another name
		var refused map[string]error
		if p.c, refused, err = p.s.metadataNames(ctx, p.corpus, p.c, wanted); err != nil {
			return err
		}
		p.refuse(refused)
		if p.c.hasAll(wanted, refused) {
			return nil
		}
	}
	return fmt.Errorf("%w: metadata properties of collection %s keep changing", ErrUnavailable, p.c.name)
}

// hasAll reports whether there is a property for each wanted key and kind but the refused.
func (c *collection) hasAll(wanted map[string]map[kind]bool, refused map[string]error) bool {
	for key, kinds := range wanted {
		for k := range kinds {
			if _, ok := c.metadataName(key, k); !ok && refused[key] == nil {
				return false
			}
		}
	}
	return true
}

// refuse gives up the nodes with these metadata keys.
func (p *put) refuse(keys map[string]error) {
	if len(keys) == 0 {
		return
	}
	kept := p.nodes[:0]
	for _, n := range p.nodes {
		var why error
		for key := range n.Metadata {
			if err := keys[key]; err != nil && (why == nil || err.Error() < why.Error()) {
				why = err
			}
		}
		if why == nil {
			kept = append(kept, n)
			continue
		}
		p.failed[n.ID] = why
	}
	p.nodes = kept
}

// send sends the nodes in batches of about the config's bytes, several at a time.
func (p *put) send(ctx context.Context) error {
	work := make(chan []*pb.BatchObject)
	var wg sync.WaitGroup
	for range p.s.cfg.Writers {
		wg.Go(func() {
			for batch := range work {
				p.sendBatch(ctx, batch)
			}
		})
	}
	var batch []*pb.BatchObject
	size := 0
	for _, n := range p.nodes {
		object, bytes := p.s.encode(p.c, n)
		if len(batch) > 0 && (size+bytes > p.s.cfg.BatchBytes || len(batch) == maxBatch) {
			work <- batch
			batch, size = nil, 0
		}
		batch, size = append(batch, object), size+bytes
	}
	if len(batch) > 0 {
		work <- batch
	}
	close(work)
	wg.Wait()
	return ctx.Err()
}

// triesOfObject is how often an object is sent that the server refuses for a reason that may pass.
const triesOfObject = 4

// sendBatch sends a batch, and again those of its objects that the server failed to take. A batch that takes the server
// longer than a call may is halved.
func (p *put) sendBatch(ctx context.Context, batch []*pb.BatchObject) {
	pause := firstPause
	for try := 1; ; try++ {
		var reply *pb.BatchObjectsReply
		err := p.s.callOf(ctx, len(batch) <= 32, "batch into "+p.c.name, func(ctx context.Context) (err error) {
			reply, err = p.s.api.BatchObjects(ctx, &pb.BatchObjectsRequest{Objects: batch, ConsistencyLevel: p.s.consistency()})
			return err
		})
		if isSlow(err) && len(batch) > 32 {
			p.sendBatch(ctx, batch[:len(batch)/2])
			p.sendBatch(ctx, batch[len(batch)/2:])
			return
		}
		if err != nil {
			p.fail(batch, err)
			return
		}
		var again []*pb.BatchObject
		for _, e := range reply.GetErrors() {
			if int(e.GetIndex()) >= len(batch) || e.GetIndex() < 0 {
				p.fail(batch, fmt.Errorf("the server names object %d of a batch of %d: %s", e.GetIndex(), len(batch), e.GetError()))
				return
			}
			object, err := batch[e.GetIndex()], objectError(e.GetError())
			if try == triesOfObject || errors.Is(err, store.ErrWidth) || errors.Is(err, store.ErrInvalid) || space.Is(err) {
				p.fail([]*pb.BatchObject{object}, err)
				continue
			}
			again = append(again, object)
		}
		if batch = again; len(batch) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			p.fail(batch, ctx.Err())
			return
		case <-time.After(pause):
			pause = min(4*pause, lastPause)
		}
	}
}

// objectError returns what the server says about one object of a batch, as one of our errors if it is one.
func objectError(text string) error {
	err := errors.New(text)
	switch {
	case strings.Contains(text, "vector lengths don't match") || strings.Contains(text, "vector with length") || strings.Contains(text, "dimension"):
		return fmt.Errorf("%w: %w", store.ErrWidth, err)
	case strings.Contains(text, "invalid") && strings.Contains(text, "property"):
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return classified(err)
}

func (p *put) fail(objects []*pb.BatchObject, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range objects {
		id, parseErr := tree.ParseID(o.GetUuid())
		if parseErr != nil {
			panic(parseErr) // it was written by ID.String
		}
		p.failed[id] = err
	}
}
