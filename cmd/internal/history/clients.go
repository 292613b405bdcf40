package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/ingest"
)

// Coordinator is what clients ask: one process of several that share their places.
type Coordinator interface {
	api.Documents
	Nodes(ctx context.Context, req api.TreeRequest, head func(api.TreeHead) error, emit func(*api.Node) error) error
	Start(ctx context.Context, corpus string, s api.Start) (api.Build, error)
	Collect(ctx context.Context, corpus string) (api.Collected, error)
}

// Config says what the clients do.
type Config struct {
	Corpus string
	// Seed decides what each client does; when, depends on the machine.
	Seed uint64
	// Clients is how many there are. Documents is how many documents they contend for.
	Clients, Documents int
	// Operations ends the work when so many have ended, and Until has come; the context may end it before.
	Operations int
	Until      time.Time
	// Timeout is how long a client waits for one answer.
	Timeout time.Duration
	// Pictures is the folder that takes a page with what was found of each document whose history is wrong; "" for none.
	Pictures string
}

// Run lets the clients work, each with the coordinators in turn, until enough operations have ended or ctx ends, and judges the
// record. Before that it reads all documents once more, when nothing changes them any longer; settle is asked to bring that about,
// and returns when every coordinator answers again. Nil: they do.
func Run(ctx context.Context, cfg Config, coordinators []Coordinator, settle func() error) (Report, error) {
	r := &recorder{cfg: cfg, began: time.Now(), deleted: map[int]bool{}, trees: map[int]map[string]bool{}}
	work, stop := context.WithCancel(ctx)
	defer stop()
	r.stop = stop
	var clients sync.WaitGroup
	for i := range cfg.Clients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(cfg.Seed, uint64(i)))
			for n := i; work.Err() == nil; n++ {
				r.operate(work, i, random, coordinators[n%len(coordinators)])
			}
		})
	}
	clients.Wait()
	if settle != nil {
		if err := settle(); err != nil {
			return Report{}, err
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	if err := r.readLast(last, coordinators); err != nil {
		return Report{}, err
	}
	return r.judge()
}

// operate does one thing.
func (r *recorder) operate(ctx context.Context, client int, random *rand.Rand, c Coordinator) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	document := r.document(random.IntN(r.cfg.Documents))
	switch p := random.IntN(100); {
	case p < 45:
		r.put(ctx, client, c, document)
	case p < 58:
		r.remove(ctx, client, c, document)
	case p < 88:
		_ = r.read(ctx, client, c)
	case p < 93:
		_, err := c.Documents(ctx, api.DocumentsRequest{Corpus: r.cfg.Corpus, Limit: 100})
		r.other("list", err)
	case p < 97:
		_, err := c.Start(ctx, r.cfg.Corpus, api.Start{BuildRequest: api.BuildRequest{Trigger: "command", Force: true}})
		r.other("build", err)
	default:
		_, err := c.Collect(ctx, r.cfg.Corpus)
		r.other("gc", err)
	}
}

func (r *recorder) document(i int) string { return fmt.Sprintf("document-%d", i) }

// put ingests a new version of a document.
func (r *recorder) put(ctx context.Context, client int, c Coordinator, document string) {
	version := r.version(false)
	r.change(client, document, version, func() error {
		report, err := ingest.Remote{To: c}.Ingest(ctx, ingest.Request{Corpus: r.cfg.Corpus, Paths: []string{"-"}, Stdin: strings.NewReader(rows(document, version))})
		if err == nil && report.LeftOut() {
			err = fmt.Errorf("something was left out: %+v", report.Errors)
		}
		return err
	})
}

func (r *recorder) remove(ctx context.Context, client int, c Coordinator, document string) {
	r.change(client, document, r.version(true), func() error {
		_, err := c.Delete(ctx, r.cfg.Corpus, []string{document})
		return err
	})
}

// rows is a version of a document as JSONL.
func rows(document string, version int) string {
	var b strings.Builder
	for i, text := range []string{fmt.Sprintf("version %d begins", version), "what stays in the middle", fmt.Sprintf("version %d ends", version)} {
		fmt.Fprintf(&b, `{"id":"%s-%d","document_id":"%s","chunk_index":%d,"text":"%s: %s"}`+"\n", document, i, document, i, document, text)
	}
	return b.String()
}

// refused reports whether an error says that nothing was done at all.
func refused(err error) bool {
	e := api.Judge(err)
	return errors.Is(err, api.ErrUnknown) || e.Status == http.StatusConflict || e.Status == http.StatusNotFound
}

// read reads all documents, and the tree over them.
func (r *recorder) read(ctx context.Context, client int, c Coordinator) error {
	seen, summaries, generation := map[string][]leaf{}, map[string]bool{}, 0
	missing := map[string]bool{}
	began := r.now()
	err := c.Nodes(ctx, api.TreeRequest{Corpus: r.cfg.Corpus, Text: true}, func(h api.TreeHead) error { generation = h.Generation; return nil }, func(n *api.Node) error {
		if n.Level > 0 {
			summaries[n.ID.String()] = true
			if n.Level > 1 {
				for _, child := range n.ChildIDs {
					missing[child.String()] = true
				}
			}
			return nil
		}
		l := leaf{index: n.ChunkIndex}
		if _, text, ok := strings.Cut(n.Text, ": version "); ok {
			if _, err := fmt.Sscan(text, &l.version); err != nil {
				return fmt.Errorf("leaf %q: %w", n.Text, err)
			}
		}
		seen[n.DocumentID] = append(seen[n.DocumentID], l)
		return nil
	})
	if err != nil {
		r.other("read", err)
		return err
	}
	for id := range summaries {
		delete(missing, id)
	}
	r.reading(client, began, seen)
	r.tree(generation, summaries, len(missing))
	return nil
}

// readLast reads through each coordinator, when nobody changes anything any more.
func (r *recorder) readLast(ctx context.Context, coordinators []Coordinator) error {
	for i, c := range coordinators {
		for {
			err := r.read(ctx, r.cfg.Clients+i, c)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the last reading: %w", err)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return nil
}

// inOrder sorts leaves as a document has them.
func inOrder(leaves []leaf) []leaf {
	slices.SortFunc(leaves, func(a, b leaf) int {
		if a.index != b.index {
			return a.index - b.index
		}
		return a.version - b.version
	})
	return leaves
}
