package levels

import (
	"cmp"
	"slices"
	"time"
)

// Progress is a snapshot for people of what one process, or all of them, do for a build.
type Progress struct {
	Build   string    `json:"build"`
	Holder  string    `json:"holder"` // names the process
	At      time.Time `json:"at"`
	Doing   string    `json:"doing"`   // such as "clustering level 2: layout 40/200"
	Running int       `json:"running"` // tasks in hand
	Level   int       `json:"level"`   // that those are of
	Waiting []string  `json:"waiting"` // such as "endpoint http://…: 429 until 02:14:05"
}

// Reports holds the last Progress of each process that works for a corpus, ordered by holder.
type Reports []Progress

// reportsFor is how much older than the newest a report may be and still count; processes report once a second.
const reportsFor = 10 * time.Second

// With returns the reports with one more in the place of its holder's, without those that are too old beside it.
func (r Reports) With(p Progress) Reports {
	var all Reports
	for _, old := range r {
		if old.Holder != p.Holder && p.At.Sub(old.At) <= reportsFor {
			all = append(all, old)
		}
	}
	all = append(all, p)
	slices.SortFunc(all, func(a, b Progress) int { return cmp.Compare(a.Holder, b.Holder) })
	return all
}

// Merged returns one Progress for all: build, holder and what is being done are those of the newest report that says
// what it does, or else of the newest; tasks in hand are summed, and each wait is listed once. Reports of other builds,
// and those that are too old, don't count. ErrNotFound if there are none.
func (r Reports) Merged() (Progress, error) {
	if len(r) == 0 {
		return Progress{}, ErrNotFound
	}
	newest := slices.MaxFunc(r, func(a, b Progress) int { return a.At.Compare(b.At) })
	merged := newest
	merged.Running, merged.Waiting = 0, nil
	for _, p := range r {
		if p.Build != newest.Build || newest.At.Sub(p.At) > reportsFor {
			continue
		}
		if merged.Doing == "" && p.Doing != "" {
			merged.Holder, merged.Doing = p.Holder, p.Doing
		}
		merged.Running += p.Running
		merged.Level = max(merged.Level, p.Level)
		for _, wait := range p.Waiting {
			if !slices.Contains(merged.Waiting, wait) {
				merged.Waiting = append(merged.Waiting, wait)
			}
		}
	}
	return merged, nil
}
