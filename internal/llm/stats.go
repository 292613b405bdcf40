package llm

import (
	"slices"
	"sync/atomic"
)

// Stats counts what happens between aerie and its models. Its fields may be read at any time; the zero value is ready.
type Stats struct {
	Calls     atomic.Int64 // requests for a summary that were sent
	Succeeded atomic.Int64 // answered with something that could be read
	Throttled atomic.Int64 // answered with 429 or the like, by any endpoint
	Failed    atomic.Int64 // failed in a way that trying again may help, by any endpoint
	MaybePaid atomic.Int64 // sent, and never answered

	SecondTries atomic.Int64 // summaries asked for again with more output tokens
	Trimmed     atomic.Int64 // summaries that were cut off and are kept up to the end of a sentence
	Longer      atomic.Int64 // answers longer than their input
	Shortened   atomic.Int64 // prompts of which the endpoint seems to have read a part only

	Reused       atomic.Int64 // answers found in the journal
	JournalLost  atomic.Int64 // answers that the journal didn't take
	InputTokens  atomic.Int64
	OutputTokens atomic.Int64

	EmbeddingCalls  atomic.Int64 // requests for vectors that were sent
	EmbeddingTokens atomic.Int64
	BadVectors      atomic.Int64 // replies that were refused and asked for again
	Halved          atomic.Int64 // batches that an endpoint refused as a whole

	refusals [len(reasons)]atomic.Int64
}

// reasons are those for which a summary is refused.
var reasons = [...]Reason{Empty, OnlyReasoning, CutOff, Refusal, Failed, Planning, AsksBack, Loops, SameAnswer}

// Refused returns the number of answers refused for any of the reasons given, or, without one, for any at all. An answer
// that was asked for again counts too.
func (s *Stats) Refused(why ...Reason) int64 {
	var n int64
	for i, r := range reasons {
		if len(why) == 0 || slices.Contains(why, r) {
			n += s.refusals[i].Load()
		}
	}
	return n
}

// RefusedByReason returns the number of answers refused for each reason, vectors too.
func (s *Stats) RefusedByReason() map[Reason]int64 {
	out := map[Reason]int64{BadVectors: s.BadVectors.Load()}
	for i, r := range reasons {
		out[r] = s.refusals[i].Load()
	}
	return out
}

func (s *Stats) refused(r Reason) {
	if i := slices.Index(reasons[:], r); i >= 0 {
		s.refusals[i].Add(1)
	}
}
