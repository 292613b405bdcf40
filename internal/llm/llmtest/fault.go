package llmtest

import (
	"net/http"
	"strings"
)

// Fault is a way to fail.
type Fault string

// The faults of both kinds of calls.
const (
	RateLimit Fault = "429"        // with Retry-After: 0 or 1
	Internal  Fault = "500"        //
	ErrorBody Fault = "error_body" // an error object with status 200
	NotJSON   Fault = "not_json"   // a page of HTML with status 200
	Drop      Fault = "drop"       // the connection is closed in the middle of the reply
)

// The faults of summaries.
const (
	EmptyAnswer   Fault = "empty"
	OnlyReasoning Fault = "only_reasoning" // in the styles of the field, in turn
	CutOff        Fault = "cut_off"        // finish_reason "length"
	Refuse        Fault = "refusal"        // not part of AllFaults: it is final
)

// The faults of vectors.
const (
	OneTooFew Fault = "one_too_few"
	NaN       Fault = "nan" // the literal, which isn't JSON
)

var (
	commonFaults    = []Fault{RateLimit, Internal, ErrorBody, NotJSON, Drop}
	chatFaults      = []Fault{EmptyAnswer, OnlyReasoning, CutOff, Refuse}
	embeddingFaults = []Fault{OneTooFew, NaN}
)

// AllFaults returns every fault that another try may cure, each at the same rate: with 0.02, 16 % of the summaries and
// 14 % of the embedding requests fail.
func AllFaults(rate float64) map[Fault]float64 {
	all := map[Fault]float64{}
	for _, list := range [][]Fault{commonFaults, chatFaults, embeddingFaults} {
		for _, f := range list {
			if f != Refuse {
				all[f] = rate
			}
		}
	}
	return all
}

// pick returns the fault for the nth time that a request is made; "" for none.
func (s *Server) pick(hash uint64, nth int, own []Fault) Fault {
	u := float64(mix(hash^mix(s.cfg.Seed+uint64(nth)*0x9e3779b97f4a7c15))>>11) / (1 << 53)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range [][]Fault{commonFaults, own} {
		for _, f := range list {
			if u < s.cfg.Faults[f] {
				s.counts.Faults[f]++
				return f
			}
			u -= s.cfg.Faults[f]
		}
	}
	return ""
}

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// common answers with a fault of both kinds; false if f is none.
func common(w http.ResponseWriter, f Fault, hash uint64) bool {
	switch f {
	case RateLimit:
		w.Header().Set("Retry-After", []string{"0", "1"}[hash%2])
		fail(w, http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit reached.")
	case Internal:
		fail(w, http.StatusInternalServerError, "server_error", "The server had an error.")
	case ErrorBody:
		fail(w, http.StatusOK, "server_error", "The engine failed while it was processing your request.")
	case NotJSON:
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<html><body><h1>502 Bad Gateway</h1></body></html>"))
	case Drop:
		w.Header().Set("Content-Length", "1000")
		w.Write([]byte(`{"choices": [`))
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

// thoughts returns a message of nothing but reasoning, in one of the styles in use.
func thoughts(style uint64) map[string]any {
	const thought = "The user wants a summary. Let me look at the passages first. They speak of"
	tags := []string{"think", "thinking", "thought", "reasoning", "THINK"}
	switch style % 8 {
	case 5:
		return map[string]any{"role": "assistant", "content": "", "reasoning_content": thought}
	case 6:
		return map[string]any{"role": "assistant", "content": nil, "reasoning": thought}
	case 7:
		return map[string]any{"role": "assistant", "content": "<think>" + thought} // not closed
	default:
		tag := tags[style%5]
		return map[string]any{"role": "assistant", "content": " \n<" + tag + ">" + thought + "</" + strings.ToLower(tag) + ">\n"}
	}
}
