package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/npy"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// trees answers questions from several trees, each named as a corpus.
type trees struct {
	of      map[string]*retrieve.Retriever
	vectors map[string][]float32 // of questions
}

func (t *trees) Retrieve(ctx context.Context, req retrieve.Request) (retrieve.Result, error) {
	name := req.Corpus
	req.Corpus, req.Vector = corpusName, t.vectors[req.Query]
	return t.of[name].Retrieve(ctx, req)
}

func (t *trees) add(b *testing.B, name string, s *bench) {
	b.Helper()
	err := s.records.Corpora().Update(context.Background(), corpusName, func(c *levels.Corpus) error {
		c.Embedder, c.Width = "hashed", 384
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	t.of[name] = retrieve.New(retrieve.Config{}, s.nodes, s.records.Corpora(), s.centers)
}

// medicalQuestions reads the questions with their vectors.
func medicalQuestions(b *testing.B) ([]evaluate.Question, map[string][]float32) {
	b.Helper()
	dir := os.Getenv("AERIE_BENCH_DATA")
	f, err := os.Open(filepath.Join(dir, "..", "medical", "questions.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	questions, err := evaluate.ReadQuestions(f)
	if err != nil {
		b.Fatal(err)
	}
	rows, err := npy.Open(filepath.Join(dir, "questions.f16.npy"))
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	vectors := make(map[string][]float32, len(questions))
	for i, q := range questions {
		vectors[q.Question] = unit(rows.Row(nil, i))
	}
	return questions, vectors
}

// nearestLeaf is the id of the passage nearest to a question.
func nearestLeaf(list []passage, question []float32) tree.ID {
	best, at := -2.0, 0
	for i, p := range list {
		sum := 0.0
		for t, x := range p.vector {
			sum += float64(x) * float64(question[t])
		}
		if sum > best {
			best, at = sum, i
		}
	}
	p := list[at]
	return tree.LeafID(corpusName, p.Document, p.Index, p.Text)
}

// reached is the share of questions whose nearest leaf a walk from the top finds.
func (t *trees) reached(b *testing.B, name string, questions []evaluate.Question, nearest []tree.ID, beam int) float64 {
	b.Helper()
	found := 0
	for i, q := range questions {
		r, err := t.Retrieve(context.Background(), retrieve.Request{Corpus: name, Query: q.Question, Options: retrieve.Options{
			Mode: new(retrieve.Traversal), Pack: new(retrieve.Similarity), Budget: new(0), PerLevel: new(beam),
		}})
		if err != nil {
			b.Fatal(err)
		}
		for _, h := range r.Hits {
			if h.ID == nearest[i] {
				found++
				break
			}
		}
	}
	return float64(found) / float64(len(questions))
}

// BenchmarkGrowthQuality: what a tree that has grown is worth beside one that was built in full of the same leaves, asked the questions
// on the medical text: 10 % at random come, ten times 1 %, and 10 % of one topic; then 5 % go.
func BenchmarkGrowthQuality(b *testing.B) {
	medical := passages(b, "medical")
	questions, vectors := medicalQuestions(b)
	for b.Loop() {
		r := rand.New(rand.NewPCG(1, 2))
		random := append([]passage(nil), medical...)
		r.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
		cut := len(random) * 10 / 11
		t := &trees{of: map[string]*retrieve.Retriever{}, vectors: vectors}

		full := newBench(b, true)
		full.add(medical)
		full.pay()
		t.add(b, "full", full)
		for seed := uint64(1); seed <= 2; seed++ {
			other := newBench(b, true)
			other.grow.Seed = seed
			other.add(medical)
			other.pay()
			t.add(b, fmt.Sprint("full-seed-", seed), other)
		}

		once := newBench(b, true)
		once.add(random[:cut])
		once.pay()
		once.add(random[cut:])
		once.pay()
		t.add(b, "grown", once)

		steps := newBench(b, true)
		steps.add(random[:cut])
		steps.pay()
		for i := range 10 {
			steps.add(random[cut+i*(len(random)-cut)/10 : cut+(i+1)*(len(random)-cut)/10])
			steps.pay()
		}
		t.add(b, "grown-in-ten", steps)

		there := newBench(b, true)
		there.add(medical)
		there.pay()
		gone := random[:len(random)/20]
		there.remove(gone)
		there.pay()
		there.add(gone)
		there.pay()
		t.add(b, "gone-and-back", there)

		compareTrees(b, t, medical, questions)
	}
}

func compareTrees(b *testing.B, t *trees, all []passage, questions []evaluate.Question) {
	names := []string{"full", "full-seed-1", "full-seed-2", "grown", "grown-in-ten", "gone-and-back"}
	var arms []evaluate.Arm
	for _, name := range names {
		arms = append(arms, evaluate.Arm{Name: name, Request: retrieve.Request{Corpus: name, Options: retrieve.Options{Alpha: new(1.0)}}})
	}
	report, err := evaluate.Run(context.Background(), evaluate.NewConfig(), t, questions, evaluate.Grid(arms, 2000))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range report.Comparisons {
		if c.Type == "" && c.Metric == evaluate.Coverage {
			fmt.Printf("medical questions, %-12s %-16s beside full: coverage %+.4f (%+.4f to %+.4f), p %.3f\n", c.Group, c.Arm, c.Difference, c.Low, c.High, c.P)
		}
	}
	nearest := make([]tree.ID, len(questions))
	for i, q := range questions {
		nearest[i] = nearestLeaf(all, t.vectors[q.Question])
	}
	for _, name := range names {
		fmt.Printf("medical questions, walked from the top: %-16s finds the nearest leaf of %.1f %% with one node a level, of %.1f %% with three\n", name,
			100*t.reached(b, name, questions, nearest, 1), 100*t.reached(b, name, questions, nearest, 3))
	}
}
