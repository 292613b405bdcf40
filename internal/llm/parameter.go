package llm

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

// parameters says which of the parameters that aerie sends of its own an endpoint doesn't take. A call works on a copy: it
// leaves out what it is refused for, and what it succeeds without is kept for the calls that follow. So all calls that
// were under way at the first refusal are made again, and a refusal that only quotes a parameter teaches nothing.
type parameters struct {
	completionTokens bool // max_completion_tokens is sent for max_tokens
	omitted          [len(droppable)]bool
}

// droppable are the parameters that a call can do without.
var droppable = [...]string{"temperature", "encoding_format", "stream_options", "stream"}

// sends reports whether a droppable parameter is sent.
func (p *parameters) sends(name string) bool {
	for i, d := range droppable {
		if d == name {
			return !p.omitted[i]
		}
	}
	return true
}

// known is what calls have learned of an endpoint.
type known struct {
	mu  sync.Mutex
	now parameters
}

func (k *known) get() parameters {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// keep adds what a call has succeeded without. It reports whether that is news.
func (k *known) keep(p parameters) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.now
	k.now.completionTokens = p.completionTokens
	for i, o := range p.omitted {
		k.now.omitted[i] = k.now.omitted[i] || o
	}
	return k.now != before
}

// attempt is one call's way through refusals.
type attempt struct {
	parameters
	renamed bool // the bound on output has had both its names
}

// without changes what is sent by what a refusal names, and reports whether the call can be made again.
func (a *attempt) without(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.parameter == "" {
		return false
	}
	switch e.parameter {
	case "max_tokens", "max_completion_tokens":
		if a.renamed || a.completionTokens != (e.parameter == "max_completion_tokens") {
			return false
		}
		a.completionTokens, a.renamed = !a.completionTokens, true
		return true
	}
	for i, d := range droppable {
		if d == e.parameter && !a.omitted[i] {
			a.omitted[i] = true
			return true
		}
	}
	return false
}

// rejectedParameter names the parameter of ours that a refusal is about. One that a call can do without need only be
// named, in whatever words; the bound on output is changed only where its name is the fault, not its value.
func rejectedParameter(param, text string) string {
	if wantsCompletionTokens.MatchString(text) {
		return "max_tokens"
	}
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		if (param == name || mention(name).MatchString(text)) && rejectText.MatchString(text) {
			return name
		}
	}
	for _, name := range droppable {
		if param == name {
			return name
		}
	}
	for _, name := range droppable {
		if name != "stream" && mention(name).MatchString(text) || name == "stream" && rejectText.MatchString(text) && mention(name).MatchString(text) {
			return name
		}
	}
	return ""
}

func mention(name string) *regexp.Regexp { return mentions[name] }

var mentions = func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for _, name := range append([]string{"max_tokens", "max_completion_tokens"}, droppable[:]...) {
		// "encoding format" is what some write for encoding_format.
		out[name] = regexp.MustCompile(`(?:^|[^a-z0-9_])` + strings.ReplaceAll(name, "_", "[ _]?") + `(?:$|[^a-z0-9_])`)
	}
	return out
}()

var (
	wantsCompletionTokens = regexp.MustCompile(`use ['"\x60]?max_completion_tokens`)
	rejectText            = regexp.MustCompile(`unsupported|not supported|n['’]t supported?|does not support|unknown|unrecognized|unrecognised|unexpected|not (?:permitted|allowed|accepted|available|recognized|compatible|valid)|extra (?:inputs?|fields?)|additional propert|deprecated|invalid (?:parameter|field|argument|key)|no such (?:parameter|field)|removed|instead`)
)
