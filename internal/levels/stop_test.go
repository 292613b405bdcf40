package levels_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
)

// TestOldRecords: what a version without causes has kept is read for what it means, by its sentence; a record with a cause
// means that, whatever its sentence says.
func TestOldRecords(t *testing.T) {
	for _, c := range []struct {
		record string
		want   levels.Cause
	}{
		{`{"status":"paused","why":"over budget: summarizing: llm: over budget: 900 tokens are spent"}`, levels.CauseBudget},
		{`{"status":"paused","why":"over budget"}`, levels.CauseBudget},
		{`{"status":"paused","why":"unreachable: summarizing: llm: endpoint http://h/v1: unreachable"}`, levels.CauseUnreachable},
		{`{"status":"paused","why":"interrupted"}`, levels.CauseInterrupted},
		{`{"status":"paused","why":"asked for"}`, levels.CauseAsked},
		{`{"status":"paused","why":""}`, levels.CauseAsked},
		{`{"status":"failed","why":"summarizing: llm: endpoint http://h/v1: 401 auth: no"}`, levels.CauseError},
		{`{"status":"failed","why":"over budget, the disk"}`, levels.CauseError},
		{`{"status":"degraded","why":"2 of 7 tasks of level 1 are buried: empty (2)"}`, levels.CauseBuried},
		{`{"status":"cancelled","why":"asked for"}`, levels.CauseAsked},
		{`{"status":"cancelled","why":"another build takes its place"}`, levels.CauseReplaced},
		{`{"status":"cancelled","why":"the configuration has changed since it began, and no other build is due"}`, levels.CauseSettings},
		{`{"status":"running","why":""}`, ""},
		{`{"status":"publishing-tree","why":""}`, ""},
		{`{"status":"done","why":""}`, ""},
		{`{"status":"paused","cause":"asked","why":"over budget: no"}`, levels.CauseAsked},
		{`{"status":"paused","cause":"of a newer version","why":"over budget: no"}`, "of a newer version"},
	} {
		var got levels.State
		if err := json.Unmarshal([]byte(c.record), &got); err != nil {
			t.Fatal(err)
		}
		if got.Cause != c.want {
			t.Errorf("%s: cause %q, want %q", c.record, got.Cause, c.want)
		}
	}
}

// TestWishes: a wish is read as it was written, by this version and by one without causes; and old wishes, or those of a newer
// version, are read for what they mean.
func TestWishes(t *testing.T) {
	for _, stop := range levels.Causes() {
		for _, sentence := range []string{"", "why", "a: b", "two\nlines", "budget"} {
			stop.Sentence = sentence
			text, err := stop.MarshalText()
			if stop.Status == levels.Degraded {
				if err == nil {
					t.Errorf("somebody asked for a build to be degraded: %q", text)
				}
				continue
			}
			var got levels.Stop
			if err == nil {
				err = got.UnmarshalText(text)
			}
			if diff := cmp.Diff(stop, got); err != nil || diff != "" {
				t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
			}
		}
	}
	for text, want := range map[string]levels.Stop{
		"":                            {},
		"pause":                       {Status: levels.Paused, Cause: levels.CauseAsked, Sentence: "asked for"},
		"cancel: asked for":           {Status: levels.Cancelled, Cause: levels.CauseAsked, Sentence: "asked for"},
		"pause: over budget: 9 spent": {Status: levels.Paused, Cause: levels.CauseBudget, Sentence: "over budget: 9 spent"},
		"pause: unreachable: h\ntwo":  {Status: levels.Paused, Cause: levels.CauseUnreachable, Sentence: "unreachable: h\ntwo"},
		"fail: 401":                   {Status: levels.Failed, Cause: levels.CauseError, Sentence: "401"},
		"fail: late\nof tomorrow":     {Status: levels.Failed, Cause: levels.CauseError, Sentence: "late\nof tomorrow"},
		"dance: why":                  {Status: levels.Paused, Cause: levels.CauseAsked, Sentence: "why"},
	} {
		var got levels.Stop
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// TestStopsThatAreNone: a build can't be brought to rest as what no cause goes with.
func TestStopsThatAreNone(t *testing.T) {
	for _, stop := range []levels.Stop{
		{}, {Status: levels.Paused}, {Cause: levels.CauseBudget}, {Status: levels.Built, Cause: levels.CauseAsked},
		{Status: levels.Failed, Cause: levels.CauseBudget}, {Status: levels.Paused, Cause: "mood"}, {Status: levels.Degraded, Cause: levels.CauseBuried},
	} {
		state := levels.State{Status: levels.Running}
		if _, err := state.Step(levels.Stopped{Stop: stop}); err == nil || state.Status != levels.Running {
			t.Errorf("%+v: the build is %s, %v", stop, state.Status, err)
		}
	}
}
