package levels_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/levels"
)

func TestReportsWith(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	report := func(holder string, after time.Duration, running int) levels.Progress {
		return levels.Progress{Build: "b", Holder: holder, At: at.Add(after), Running: running}
	}
	var r levels.Reports
	for _, p := range []levels.Progress{report("w2", 0, 1), report("w1", time.Second, 2), report("w2", 2*time.Second, 3)} {
		r = r.With(p)
	}
	want := levels.Reports{report("w1", time.Second, 2), report("w2", 2*time.Second, 3)} // by holder, one of each, the last
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Ten seconds are not too old; a moment more is.
	kept := r.With(report("w3", 11*time.Second, 4))
	if diff := cmp.Diff(append(want, report("w3", 11*time.Second, 4)), kept); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	dropped := r.With(report("w3", 11*time.Second+1, 4))
	if diff := cmp.Diff(levels.Reports{want[1], report("w3", 11*time.Second+1, 4)}, dropped); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("With has changed the reports that it was called on:\n%s", diff)
	}
}

func TestReportsMerged(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	limit, away := "endpoint http://h: the fleet's limit until 02:00:07 (3 calls wait)", "endpoint http://h, which can't be reached: refused"
	for _, c := range []struct {
		name string
		in   levels.Reports
		want levels.Progress
	}{
		{"one", levels.Reports{{Build: "b", Holder: "c", At: at, Doing: "clustering", Running: 1, Level: 2, Waiting: []string{limit}}},
			levels.Progress{Build: "b", Holder: "c", At: at, Doing: "clustering", Running: 1, Level: 2, Waiting: []string{limit}}},
		{"tasks are summed, waits are listed once, and who does something speaks", levels.Reports{
			{Build: "b", Holder: "c", At: at, Doing: "publishing"},
			{Build: "b", Holder: "w1", At: at.Add(time.Second), Running: 3, Level: 1, Waiting: []string{limit, away}},
			{Build: "b", Holder: "w2", At: at.Add(2 * time.Second), Running: 4, Level: 2, Waiting: []string{limit}},
		}, levels.Progress{Build: "b", Holder: "c", At: at.Add(2 * time.Second), Doing: "publishing", Running: 7, Level: 2, Waiting: []string{limit, away}}},
		{"other builds don't count", levels.Reports{
			{Build: "a", Holder: "w1", At: at, Running: 3, Level: 4, Waiting: []string{limit}, Doing: "old"},
			{Build: "b", Holder: "w2", At: at.Add(time.Second), Running: 4, Level: 1},
		}, levels.Progress{Build: "b", Holder: "w2", At: at.Add(time.Second), Running: 4, Level: 1}},
		{"what is too old doesn't count", levels.Reports{
			{Build: "b", Holder: "w1", At: at, Running: 3, Level: 4, Waiting: []string{limit}, Doing: "old"},
			{Build: "b", Holder: "w2", At: at.Add(11 * time.Second), Running: 4, Level: 1},
		}, levels.Progress{Build: "b", Holder: "w2", At: at.Add(11 * time.Second), Running: 4, Level: 1}},
	} {
		got, err := c.in.Merged()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if _, err := (levels.Reports)(nil).Merged(); !errors.Is(err, levels.ErrNotFound) {
		t.Errorf("no report: error %v, want %v", err, levels.ErrNotFound)
	}
}
