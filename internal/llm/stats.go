package llm

import "sync/atomic"

// Stats counts what happens between aerie and its models. Its fields may be read at any time; the zero value is ready.
type Stats struct {
	Calls     atomic.Int64 // requests for a summary that were sent
	Succeeded atomic.Int64 // answered with something that could be read
	Throttled atomic.Int64 // answered with 429 or the like, by any endpoint
	Failed    atomic.Int64 // failed in a way that trying again may help, by any endpoint
	MaybePaid atomic.Int64 // sent, and never answered

	SecondTries atomic.Int64 // summaries asked for again with more output tokens
	// Refused answers, by reason. An answer that was asked for again counts too.
	RefusedEmpty, RefusedReasoning, RefusedCutOff, RefusedRefusal atomic.Int64
	Longer                                                        atomic.Int64 // answers longer than their input
	Shortened                                                     atomic.Int64 // prompts of which the endpoint seems to have read a part only

	Reused       atomic.Int64 // answers found in the journal
	JournalLost  atomic.Int64 // answers that the journal didn't take
	InputTokens  atomic.Int64
	OutputTokens atomic.Int64

	EmbeddingCalls  atomic.Int64 // requests for vectors that were sent
	EmbeddingTokens atomic.Int64
	BadVectors      atomic.Int64 // replies that were refused and asked for again
	Halved          atomic.Int64 // batches that an endpoint refused as a whole
}

// Refused returns the number of answers refused.
func (s *Stats) Refused() int64 {
	return s.RefusedEmpty.Load() + s.RefusedReasoning.Load() + s.RefusedCutOff.Load() + s.RefusedRefusal.Load()
}

func (s *Stats) refused(r Reason) {
	switch r {
	case Empty:
		s.RefusedEmpty.Add(1)
	case OnlyReasoning:
		s.RefusedReasoning.Add(1)
	case CutOff:
		s.RefusedCutOff.Add(1)
	case Refusal:
		s.RefusedRefusal.Add(1)
	}
}
