package redisstate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Members implements [levels.Members].
type Members struct{ s *State }

var _ levels.Members = (*Members)(nil)

// Members returns who works for the fleet. All are in one hash: they are some hundreds, and read together.
func (s *State) Members() *Members { return &Members{s} }

func (m *Members) key() string { return m.s.sharedKey("fleet", "members") }

// Tell implements [levels.Members].
func (m *Members) Tell(ctx context.Context, member levels.Member) error {
	record, err := json.Marshal(member)
	if err == nil {
		err = m.s.try(ctx, func(ctx context.Context) error {
			return m.s.client.HSet(ctx, m.key(), string(member.Role)+" "+member.ID, record).Err()
		})
	}
	if err != nil {
		return fmt.Errorf("redisstate: %s %s: %w", member.Role, member.ID, err)
	}
	return nil
}

// Members implements [levels.Members]. Whoever reads removes those that are forgotten.
func (m *Members) Members(ctx context.Context) ([]levels.Member, error) {
	all, err := m.members(ctx, time.Now())
	if err != nil {
		return nil, fmt.Errorf("redisstate: members: %w", err)
	}
	levels.SortMembers(all)
	return all, nil
}

func (m *Members) members(ctx context.Context, now time.Time) (all []levels.Member, err error) {
	var records map[string]string
	if err := m.s.try(ctx, func(ctx context.Context) (err error) {
		records, err = m.s.client.HGetAll(ctx, m.key()).Result()
		return err
	}); err != nil {
		return nil, err
	}
	var gone []string
	for field, record := range records {
		var member levels.Member
		if err := json.Unmarshal([]byte(record), &member); err != nil {
			return nil, err
		}
		if member.Forgotten(now) {
			gone = append(gone, field)
		} else {
			all = append(all, member)
		}
	}
	if len(gone) == 0 {
		return all, nil
	}
	return all, m.s.try(ctx, func(ctx context.Context) error { return m.s.client.HDel(ctx, m.key(), gone...).Err() })
}
