package retrievetest

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/tree"
)

// secondHop: the answer to a question stands in a leaf that resembles neither its vector nor its words; a leaf that does resemble it
// names what the answer is about. Two hops find it, one doesn't, and the explanation names the way.
func secondHop(s suite) {
	record := Built(s.corpus, tree.ScopeCorpus, true)
	bridge := Leaf("bridge", 0, "The painter Orla Quennell studied in the workshop of Tobias Verrinder.", At(0.9))
	answer := Leaf("answer", 0, "Tobias Verrinder was born in the harbor town of Esk.", At(-0.5))
	nodes := []tree.Node{bridge, answer}
	for i := range 60 {
		nodes = append(nodes, Leaf(fmt.Sprintf("other-%d", i), 0, fmt.Sprintf("Passage %d tells of herons and of the river in spring.", i), At(0.6-float64(i)/100)))
	}
	w := New(s.T, s.store, record, nodes...)
	ask := func(hops retrieve.Hops, question string) (rank int, link *retrieve.Link) {
		req := w.Request(question)
		req.Hops, req.Alpha, req.Explain, req.Pack, req.Pool = &hops, new(0.7), new(true), new(retrieve.Similarity), new(20)
		result := w.Retrieve(s.T, req)
		for i, c := range result.Explain.Candidates {
			if c.ID == answer.ID {
				return i + 1, c.Parts.Link
			}
		}
		return 0, nil
	}
	const question = "In which town was the teacher of Orla Quennell raised?"
	one, _ := ask(retrieve.OneHop, question)
	if one != 0 && one < 20 {
		s.Errorf("one hop finds the answer at place %d: the case shows nothing", one)
	}
	for _, hops := range []retrieve.Hops{retrieve.TwoHops, retrieve.AutoHops} {
		rank, link := ask(hops, question)
		if rank == 0 || rank > 3 || link == nil || link.From != bridge.ID || link.Term != "tobias verrinder" {
			s.Errorf("%s hops: the answer stands at place %d, linked by %+v", hops, rank, link)
		}
	}
	if rank, _ := ask(retrieve.AutoHops, "where do herons wait"); rank != 0 && rank < 20 {
		s.Errorf("a question that names nothing goes a second hop, to place %d", rank)
	}
}
