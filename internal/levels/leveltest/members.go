package leveltest

import (
	"testing"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// RunMembers holds an implementation to the contract of [levels.Members].
func RunMembers(t *testing.T, open func(t *testing.T) Ports) {
	runAll(t, "Members", []contractTest{
		{"Tell", (*suite).tellOf},
		{"Forget", (*suite).forgetMembers},
	}, open)
}

// mine returns the members whose ids begin with the test's corpus: others may share the ports.
func (s *suite) mine() []levels.Member {
	s.Helper()
	all, err := s.Ports.Members.Members(s.Context())
	s.ok("Members", err)
	var mine []levels.Member
	for _, m := range all {
		if len(m.ID) > len(s.corpus) && m.ID[:len(s.corpus)] == s.corpus {
			mine = append(mine, m)
		}
	}
	return mine
}

// tellOf: the last word of each process stands, a process may have both roles, and the order is that of role and id.
func (s *suite) tellOf() {
	now := time.Now().Truncate(time.Millisecond)
	member := func(id string, role levels.Role, running int) levels.Member {
		return levels.Member{
			ID: s.corpus + id, Role: role, Version: "v1", Recipe: "r", Slots: 4, Running: running, WaitingFor: []string{"endpoint x: 429"},
			Started: now.Add(-time.Hour), At: now,
		}
	}
	s.same("before anybody has told", s.mine(), []levels.Member(nil))
	for _, m := range []levels.Member{
		member("-b", levels.RoleWorker, 1), member("-a", levels.RoleWorker, 2), member("-b", levels.RoleCoordinator, 0), member("-b", levels.RoleWorker, 3),
	} {
		s.ok("Tell", s.Ports.Members.Tell(s.Context(), m))
	}
	want := []levels.Member{member("-b", levels.RoleCoordinator, 0), member("-a", levels.RoleWorker, 2), member("-b", levels.RoleWorker, 3)}
	s.same("members", s.mine(), want)
	for _, m := range s.mine() {
		if !m.Alive(now) || m.Alive(now.Add(time.Minute)) {
			s.Errorf("%s is alive now: %t, in a minute: %t", m.ID, m.Alive(now), m.Alive(now.Add(time.Minute)))
		}
	}
	left := want[1]
	left.Left = true
	s.ok("Tell", s.Ports.Members.Tell(s.Context(), left))
	want[1] = left
	s.same("after one has left", s.mine(), want)
	if left.Alive(now) {
		s.Error("who has left is alive")
	}
}

// forgetMembers: who has said nothing for more than a day is gone, and who was there within it is kept.
func (s *suite) forgetMembers() {
	now := time.Now().Truncate(time.Millisecond)
	old := levels.Member{ID: s.corpus + "-old", Role: levels.RoleWorker, At: now.Add(-25 * time.Hour)}
	recent := levels.Member{ID: s.corpus + "-recent", Role: levels.RoleWorker, At: now.Add(-23 * time.Hour)}
	for _, m := range []levels.Member{old, recent} {
		s.ok("Tell", s.Ports.Members.Tell(s.Context(), m))
	}
	s.same("members", s.mine(), []levels.Member{recent})
	s.same("members again", s.mine(), []levels.Member{recent})
}
