package coordinator_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/corpus"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// passage is one leaf of the data of a benchmark.
type passage struct {
	Document string `json:"document_id"`
	Index    int    `json:"chunk_index"`
	Text     string `json:"text"`
	Tokens   int    `json:"tokens"`
	vector   []float32
}

// passages reads NAME.leaves.jsonl.gz and NAME.f16.npy from AERIE_BENCH_DATA; make bench-growth sets it.
func passages(b *testing.B, name string) []passage {
	b.Helper()
	dir := os.Getenv("AERIE_BENCH_DATA")
	f, err := os.Open(filepath.Join(dir, name+".leaves.jsonl.gz"))
	if err != nil {
		b.Fatalf("the data of this benchmark is not in AERIE_BENCH_DATA=%q: %v", dir, err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	vectors, err := npy.Open(filepath.Join(dir, name+".f16.npy"))
	if err != nil {
		b.Fatal(err)
	}
	defer vectors.Close()
	var out []passage
	for lines := bufio.NewReader(z); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			break
		}
		var p passage
		if err := json.Unmarshal(line, &p); err != nil {
			b.Fatal(err)
		}
		p.vector = unit(vectors.Row(nil, len(out)))
		out = append(out, p)
		if err != nil {
			break
		}
	}
	return out
}

func unit(v []float32) []float32 {
	s := 0.0
	for _, x := range v {
		s += float64(x) * float64(x)
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(s))
	}
	return v
}

// centers embeds a summary as the direction of its passages' sum: a model's vectors without the model.
type centers struct {
	hashed
	mu    sync.Mutex
	known map[string][]float32
}

func (c *centers) Embed(_ context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([][]float32, len(texts))
	for i, t := range texts {
		if out[i] = c.known[t]; out[i] == nil {
			return nil, fmt.Errorf("no vector for %.40q", t)
		}
	}
	return out, nil
}

func (c *centers) learn(text string, from []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum []float32
	for _, t := range from {
		for i, x := range c.known[t] {
			if sum == nil {
				sum = make([]float32, len(c.known[t]))
			}
			sum[i] += x
		}
	}
	c.known[text] = unit(sum)
}

// bench is a corpus that grows, with what it has cost.
type bench struct {
	*system
	b       *testing.B
	paid    int // tokens, in and out
	centers *centers
}

// newBench starts with the built-in summarizer, and with the built-in embedder or the vectors of the data.
func newBench(b *testing.B, model bool) *bench {
	s := newSystem(b)
	counter := corpus.NewCounter()
	cfg := clustering.Config{Mode: clustering.Raptor, Seed: 224, Threshold: 0.1, Dim: 10, MaxClusterTokens: 3500}
	s.grow, s.cluster, s.stale, s.counter = &cfg, nil, 0.2, counter
	out := &bench{system: s, b: b, centers: &centers{known: map[string][]float32{}}}
	s.embedder = llm.Lexical{}
	if model {
		s.embedder = out.centers
	}
	extractive := llm.NewExtractive(llm.ExtractiveConfig{Counter: counter})
	var mu sync.Mutex
	s.endpoint.answer = func(ctx context.Context, texts []string) (string, error) {
		answer, err := extractive.Summarize(ctx, mapreduce.Call{Texts: texts, MaxOutputTokens: 200})
		if err != nil {
			return "", err
		}
		tokens := counter.Count(answer.Text)
		for _, t := range texts {
			tokens += counter.Count(t)
		}
		if model {
			out.centers.learn(answer.Text, texts)
		}
		mu.Lock()
		out.paid += tokens
		mu.Unlock()
		return answer.Text, nil
	}
	return out
}

func (b *bench) add(list []passage) {
	b.b.Helper()
	nodes := make([]tree.Node, len(list))
	for i, p := range list {
		nodes[i] = tree.Node{
			ID: tree.LeafID(corpusName, p.Document, p.Index, p.Text), DocumentID: p.Document, ChunkIndex: p.Index, Text: p.Text,
			Tokens: p.Tokens, NLeaves: 1, Died: tree.Alive, Vector: p.vector,
		}
		if b.embedder == b.centers {
			b.centers.known[p.Text] = p.vector
			continue
		}
		v, err := b.embedder.Embed(context.Background(), []string{p.Text})
		if err != nil {
			b.b.Fatal(err)
		}
		nodes[i].Vector = v[0]
	}
	if err := b.nodes.Put(context.Background(), corpusName, nodes); err != nil {
		b.b.Fatal(err)
	}
	b.changed(len(nodes))
}

func (b *bench) remove(list []passage) {
	b.b.Helper()
	ids := make([]tree.ID, len(list))
	for i, p := range list {
		ids[i] = tree.LeafID(corpusName, p.Document, p.Index, p.Text)
	}
	if err := b.nodes.Delete(context.Background(), corpusName, ids); err != nil {
		b.b.Fatal(err)
	}
	b.changed(len(ids))
}

// pay builds and returns the tokens that it cost, the calls, and the coherence of its leaves.
func (b *bench) pay() (tokens, calls int, coherence float64) {
	b.b.Helper()
	before := b.paid
	report := b.build(coordinator.Request{Force: true})
	if report.Outcome != api.OutcomeBuilt {
		b.b.Fatalf("%+v", report)
	}
	var record *levels.Corpus
	record, err := b.records.Corpora().Load(context.Background(), corpusName)
	if err != nil {
		b.b.Fatal(err)
	}
	return b.paid - before, report.Calls, record.Coherence
}

// fromScratch is what a build in full of the same leaves costs.
func fromScratch(b *testing.B, model bool, list []passage) (tokens, calls int, coherence float64) {
	s := newBench(b, model)
	s.add(list)
	return s.pay()
}

func row(name string, paid, full, calls int, limit string, coherence float64) {
	fmt.Printf("%-52s %6.1f %% %6d calls   %-8s coherence %.3f\n", name, 100*float64(paid)/float64(full), calls, limit, coherence)
}

// documentsOf cuts a list where its document changes.
func documentsOf(list []passage) [][]passage {
	var out [][]passage
	for i, p := range list {
		if i == 0 || p.Document != list[i-1].Document {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

func flat(lists [][]passage) []passage {
	var out []passage
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// BenchmarkGrowthOfDocuments: whole PEPs with the built-in models.
func BenchmarkGrowthOfDocuments(b *testing.B) {
	docs := documentsOf(passages(b, "peps"))[:122]
	base, more := docs[:110], docs[110:]
	for b.Loop() {
		full, calls, c := fromScratch(b, false, flat(docs))
		row("PEPs, in full", full, full, calls, "", c)
		s := newBench(b, false)
		s.add(flat(base))
		s.pay()
		s.add(flat(more))
		paid, calls, c := s.pay()
		row("PEPs, +10 % documents", paid, full, calls, "<= 15 %", c)
		paid, calls, c = s.pay()
		row("PEPs, nothing changed", paid, full, calls, "0", c)
		one := docs[40][len(docs[40])/3]
		s.remove([]passage{one})
		one.Text += " Indeed."
		s.add([]passage{one})
		paid, calls, c = s.pay()
		row("PEPs, one word", paid, full, calls, "<= 1 %", c)
		deletions(s, "PEPs", docs, full)

		s = newBench(b, false)
		s.add(flat(base))
		s.pay()
		total, made := 0, 0
		for _, d := range more {
			s.add(d)
			paid, calls, c = s.pay()
			total, made = total+paid, made+calls
		}
		row("PEPs, 12 documents in 12 builds", total, full, made, "<= 18 %", c)
	}
}

// deletions takes documents out of the same tree, one and six at a time, in twelve seeded choices each, and tells the mean and the most.
func deletions(s *bench, what string, docs [][]passage, full int) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, way := range []struct {
		name  string
		n     int
		limit string
	}{{what + ", -1 % documents, mean of 12 choices", 1, "<= 6 %"}, {what + ", -5 % documents, mean of 12 choices", 6, "<= 25 %"}} {
		sum, most, calls, foreseen, worst := 0, 0, 0, 0, 2.0
		for range 12 {
			one := s.copy()
			for _, i := range r.Perm(len(docs))[:way.n] {
				one.erase(docs[i][0].Document)
			}
			estimate := one.plan()
			paid, made, c := one.pay()
			foreseen += estimate.Calls
			sum, most, calls, worst = sum+paid, max(most, paid), calls+made, min(worst, c)
		}
		fmt.Printf("%-52s %d calls foreseen, %d made\n", way.name, foreseen, calls)
		row(fmt.Sprintf("%s (at most %.1f %%)", way.name, 100*float64(most)/float64(full)), sum/12, full, calls/12, way.limit, worst)
	}
	sizes := slices.Clone(docs)
	slices.SortFunc(sizes, func(a, b []passage) int { return cmp.Compare(tokensOf(a), tokensOf(b)) })
	for _, at := range []struct {
		name string
		i    int
	}{{"of median size", len(docs) / 2}, {"the largest", len(docs) - 1}} {
		one := s.copy()
		one.erase(sizes[at.i][0].Document)
		paid, calls, c := one.pay()
		share := 100 * float64(tokensOf(sizes[at.i])) / float64(tokensOf(flat(docs)))
		row(fmt.Sprintf(what+", one document less, %s (%.1f %% of tokens)", at.name, share), paid, full, calls, "", c)
	}
}

func tokensOf(list []passage) int {
	n := 0
	for _, p := range list {
		n += p.Tokens
	}
	return n
}

// copy is another corpus with the same nodes and record.
func (b *bench) copy() *bench {
	b.b.Helper()
	out := newBench(b.b, b.embedder == b.centers)
	out.centers = b.centers
	if b.embedder == b.centers {
		out.embedder = b.centers
	}
	ctx := context.Background()
	var nodes []tree.Node
	err := b.nodes.Each(ctx, corpusName, store.AnyLevel(), store.Fields{Text: true, Vector: true}, func(n *tree.Node) error {
		nodes = append(nodes, *n)
		return nil
	})
	if err == nil {
		err = out.nodes.Put(ctx, corpusName, nodes)
	}
	if err == nil {
		record := b.record()
		err = out.records.Corpora().Update(ctx, corpusName, func(c *levels.Corpus) error { *c = *record; return nil })
	}
	if err != nil {
		b.b.Fatal(err)
	}
	return out
}

// BenchmarkGrowthOfVectors: leaves of the medical text and of the PEPs with vectors of a model.
func BenchmarkGrowthOfVectors(b *testing.B) {
	medical := passages(b, "medical")
	peps := documentsOf(passages(b, "peps"))
	for b.Loop() {
		r := rand.New(rand.NewPCG(1, 2))
		random := append([]passage(nil), medical...)
		r.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
		cut := len(random) * 10 / 11
		full, calls, whole := fromScratch(b, true, medical)
		row("medical, in full", full, full, calls, "", whole)
		s := newBench(b, true)
		s.add(random[:cut])
		s.pay()
		s.add(random[cut:])
		paid, calls, c := s.pay()
		row("medical, +10 % random", paid, full, calls, "<= 20 %", c/whole)

		s = newBench(b, true)
		s.add(random[:cut])
		s.pay()
		total, made, step := 0, 0, (len(random)-cut)/10
		for i := range 10 {
			s.add(random[cut+i*step : cut+(i+1)*step])
			paid, calls, c = s.pay()
			total, made = total+paid, made+calls
		}
		row("medical, ten times 1 % random", total, full, made, "<= 27 %", c/whole)

		topic := medical[len(medical)/2].vector
		near := append([]passage(nil), medical...)
		like := func(p passage) float64 {
			sum := 0.0
			for i, x := range p.vector {
				sum += float64(x) * float64(topic[i])
			}
			return sum
		}
		sortBy(near, like)
		s = newBench(b, true)
		s.add(near[len(near)-cut:])
		s.pay()
		s.add(near[:len(near)-cut])
		paid, calls, c = s.pay()
		row("medical, +10 % of one topic", paid, full, calls, "<= 16 %", c/whole)

		s = newBench(b, true)
		s.add(flat(peps[:60]))
		s.pay()
		share, steps, least := 0.0, 0, 2.0
		for at := 60; at < 120; at += 6 {
			s.add(flat(peps[at : at+6]))
			paid, _, c := s.pay()
			full, _, whole := fromScratch(b, true, flat(peps[:at+6]))
			share, steps, least = share+float64(paid)/float64(full), steps+1, min(least, c/whole)
		}
		few := peps[:122]
		full, _, _ = fromScratch(b, true, flat(few))
		s = newBench(b, true)
		s.add(flat(few))
		s.pay()
		deletions(s, "PEPs with vectors of a model", few, full)
		fmt.Printf("%-52s %6.1f %% a step        <= 13 %%  coherence at least %.3f\n", "PEPs, doubling by documents", 100*share/float64(steps), least)
	}
}

func sortBy(list []passage, key func(passage) float64) {
	keys := make(map[string]float64, len(list))
	for _, p := range list {
		keys[p.Text] = key(p)
	}
	slices.SortStableFunc(list, func(a, b passage) int { return cmp.Compare(keys[b.Text], keys[a.Text]) })
}

// BenchmarkGrowthOfMany: the time of planning 1 % more of all PEPs.
func BenchmarkGrowthOfMany(b *testing.B) {
	all := passages(b, "peps")
	docs := documentsOf(all)
	for b.Loop() {
		s := newBench(b, true)
		cut := len(docs) - 7
		s.add(flat(docs[:cut]))
		s.pay()
		s.add(flat(docs[cut:]))
		began := time.Now()
		estimate := s.plan()
		fmt.Printf("%-52s %6.1f s for %d leaves, <= 5 s: %d calls, in full about %d\n", "all PEPs, +1 %, planned", time.Since(began).Seconds(), len(all),
			estimate.Incremental.Calls, estimate.Full.Calls)
		began = time.Now()
		_, calls, _ := s.pay()
		fmt.Printf("%-52s %6.1f s, %d calls\n", "all PEPs, +1 %, planned and built", time.Since(began).Seconds(), calls)
	}
}
