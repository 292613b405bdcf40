package levels

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Stop says why a build rests: how, because of what, and in one sentence for people. Programs decide by Status and Cause;
// nothing may depend on the words of the sentence. The zero Stop is none.
type Stop struct {
	Status   Status // Paused, Failed, Cancelled or Degraded
	Cause    Cause
	Sentence string
}

// Cause is what brought a build to rest. The set is closed: [Causes] lists it. A new cause needs its row there, and with that
// an exit code and a word about going on; the tests name what is missing.
type Cause string

// The causes.
const (
	CauseBudget      Cause = "budget"      // what the build may spend is spent
	CauseUnreachable Cause = "unreachable" // an endpoint can't be reached
	CauseFull        Cause = "full"        // a disk, a quota or a memory takes no more
	CauseAuth        Cause = "auth"        // an endpoint refuses the key, the model or the address
	CauseQuota       Cause = "quota"       // the account at an endpoint has nothing left
	CauseAsked       Cause = "asked"       // a person asked for it
	CauseInterrupted Cause = "interrupted" // the process that built was told to end
	CauseBuried      Cause = "buried"      // more tasks are buried than a level may be sealed with
	CauseReplaced    Cause = "replaced"    // another build takes its place
	CauseSettings    Cause = "settings"    // the configuration has changed since it began
	CauseError       Cause = "error"       // anything else
)

// causes says as what a build may rest because of what. The first cause of a status is the one of an old record whose sentence
// tells of no other.
var causes = []struct {
	cause Cause
	as    []Status
}{
	{CauseAsked, []Status{Paused, Cancelled}},
	{CauseBudget, []Status{Paused}},
	{CauseUnreachable, []Status{Paused}},
	{CauseFull, []Status{Paused}},
	{CauseInterrupted, []Status{Paused}},
	{CauseError, []Status{Failed}},
	{CauseAuth, []Status{Failed}},
	{CauseQuota, []Status{Failed}},
	{CauseBuried, []Status{Degraded}},
	{CauseReplaced, []Status{Cancelled}},
	{CauseSettings, []Status{Cancelled}},
}

// Causes returns every Stop that there is, without sentences.
func Causes() []Stop {
	var all []Stop
	for _, c := range causes {
		for _, status := range c.as {
			all = append(all, Stop{Status: status, Cause: c.cause})
		}
	}
	return all
}

// Validate reports a Stop that is none of [Causes].
func (s Stop) Validate() error {
	for _, c := range causes {
		if c.cause == s.Cause && slices.Contains(c.as, s.Status) {
			return nil
		}
	}
	return fmt.Errorf("a build can't be stopped as %q because of %q", s.Status, s.Cause)
}

// SentenceBudget and SentenceUnreachable begin the sentences of their causes. Versions that kept sentences alone decide by
// them, and may still run beside this one.
const (
	SentenceBudget      = "over budget: "
	SentenceUnreachable = "unreachable: "
)

// CauseOf returns the cause of a record, and reads that of a version which kept none out of the sentence. Nothing else reads
// sentences.
func CauseOf(status Status, cause Cause, why string) Cause {
	if cause != "" {
		return cause
	}
	for _, old := range []struct {
		Stop
		begin string
	}{
		{Stop{Status: Paused, Cause: CauseBudget}, strings.TrimSuffix(SentenceBudget, ": ")},
		{Stop{Status: Paused, Cause: CauseUnreachable}, strings.TrimSuffix(SentenceUnreachable, ": ")},
		{Stop{Status: Paused, Cause: CauseInterrupted}, "interrupted"},
		{Stop{Status: Cancelled, Cause: CauseReplaced}, "another build takes its place"},
		{Stop{Status: Cancelled, Cause: CauseSettings}, "the configuration has changed"},
	} {
		if old.Status == status && strings.HasPrefix(why, old.begin) {
			return old.Cause
		}
	}
	for _, c := range causes {
		if slices.Contains(c.as, status) {
			return c.cause
		}
	}
	return ""
}

// UnmarshalJSON reads a state, also one that was kept before there were causes.
func (s *State) UnmarshalJSON(text []byte) error {
	type plain State
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	s.Cause = CauseOf(s.Status, s.Cause, s.Why)
	return nil
}

// Stop returns why the build rests; the zero Stop if it doesn't, or is done.
func (s *State) Stop() Stop {
	if !s.Resting() || s.Status == Built {
		return Stop{}
	}
	return Stop{s.Status, s.Cause, s.Why}
}

// verbs are the words of a wish, as versions without causes read and write them.
var verbs = map[Status]string{Paused: "pause", Cancelled: "cancel", Failed: "fail"}

// MarshalText returns a wish as it is kept: "verb: sentence", which is all that versions without causes know, and the cause on
// a line of its own. The zero Stop is empty.
func (s Stop) MarshalText() ([]byte, error) {
	if s == (Stop{}) {
		return nil, nil
	}
	verb, ok := verbs[s.Status]
	if !ok {
		return nil, fmt.Errorf("levels: nobody can ask for a build to be %q", s.Status)
	}
	return fmt.Appendf(nil, "%s: %s\n%s", verb, s.Sentence, s.Cause), nil
}

// UnmarshalText reads a wish, also one of a version without causes, or with a cause that this one doesn't know.
func (s *Stop) UnmarshalText(text []byte) error {
	*s = Stop{}
	if len(text) == 0 {
		return nil
	}
	verb, sentence, found := strings.Cut(string(text), ": ")
	if !found {
		sentence = "asked for"
	}
	s.Status, s.Sentence = Paused, sentence
	for status, v := range verbs {
		if v == verb {
			s.Status = status
		}
	}
	if i := strings.LastIndexByte(sentence, '\n'); i >= 0 {
		known := Stop{s.Status, Cause(sentence[i+1:]), sentence[:i]}
		if known.Validate() == nil {
			*s = known
			return nil
		}
	}
	s.Cause = CauseOf(s.Status, "", s.Sentence)
	return nil
}
