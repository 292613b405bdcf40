package levels

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Role is what a process does for a fleet.
type Role string

// The roles. A process that builds alone has both.
const (
	RoleCoordinator Role = "coordinator"
	RoleWorker      Role = "worker"
)

// Member is what a process tells of itself, for people.
type Member struct {
	ID      string `json:"id"` // names the process; with Role unique
	Role    Role   `json:"role"`
	Version string `json:"version"`
	// Recipe names how its summaries are made: a worker takes tasks of this one only.
	Recipe string `json:"recipe,omitempty"`
	// Slots is how many summaries a worker makes at a time, Running how many tasks it has in hand; 0 for a coordinator.
	Slots   int `json:"slots"`
	Running int `json:"running"`
	// WaitingFor says what it waits for, such as "endpoint http://…: 429 until 02:14:05".
	WaitingFor []string  `json:"waiting_for"`
	Started    time.Time `json:"started"`
	At         time.Time `json:"at"` // of the last word
	// Left says that the process has ended in an orderly way.
	Left bool `json:"left,omitempty"`
}

const (
	// MemberBeat is how often a process tells of itself.
	MemberBeat = 3 * time.Second
	// memberAlive is for how long a word counts.
	memberAlive = 5 * MemberBeat
	// memberKept is for how long the last word of a process that is gone is kept.
	memberKept = 24 * time.Hour
)

// Alive reports whether the process works now, as far as is known.
func (m *Member) Alive(now time.Time) bool { return !m.Left && now.Sub(m.At) < memberAlive }

// Forgotten reports whether the process has been gone for so long that nobody asks.
func (m *Member) Forgotten(now time.Time) bool { return now.Sub(m.At) > memberKept }

// SortMembers brings members into the order of [Members.Members].
func SortMembers(all []Member) {
	slices.SortFunc(all, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.ID, b.ID)) })
}

// Members keeps who works for a fleet, or in a home. It has no part in any decision.
type Members interface {
	// Tell keeps what a process tells of itself, in the place of what it told before.
	Tell(ctx context.Context, m Member) error
	// Members returns what all have told last, by role and id, those that are gone for less than a day included.
	Members(ctx context.Context) ([]Member, error)
}
