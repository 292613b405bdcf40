package leveltest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// memberOf is what a member is known by.
type memberOf struct {
	role levels.Role
	id   string
}

// Tell implements [levels.Members].
func (m *Memory) Tell(ctx context.Context, member levels.Member) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.members == nil {
		m.members = map[memberOf]levels.Member{}
	}
	member.WaitingFor = slices.Clone(member.WaitingFor)
	m.members[memberOf{member.Role, member.ID}] = member
	return nil
}

// Members implements [levels.Members].
func (m *Memory) Members(ctx context.Context) ([]levels.Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.members, func(_ memberOf, member levels.Member) bool { return member.Forgotten(time.Now()) })
	all := slices.Collect(maps.Values(m.members))
	levels.SortMembers(all)
	return all, nil
}
