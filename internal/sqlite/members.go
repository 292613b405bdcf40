package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Members implements [levels.Members].
type Members struct{ db *DB }

var _ levels.Members = (*Members)(nil)

// Members returns who works in the home. They are a few, and stand together in the table of what is reported, under a name that no
// corpus has: so homes of versions that know of no members need no other schema.
func (db *DB) Members() *Members { return &Members{db} }

const membersRow = "/members"

// Tell implements [levels.Members]. It removes those that are forgotten.
func (m *Members) Tell(ctx context.Context, member levels.Member) error {
	err := m.db.write(ctx, func(s *session) error {
		all, err := m.read(s)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(old levels.Member) bool { return old.Role == member.Role && old.ID == member.ID })
		record, err := json.Marshal(append(all, member))
		if err != nil {
			return err
		}
		return s.exec("INSERT OR REPLACE INTO progress (corpus, progress) VALUES (?, ?)", membersRow, string(record))
	})
	if err != nil {
		return fmt.Errorf("sqlite: %s %s: %w", member.Role, member.ID, err)
	}
	return nil
}

// Members implements [levels.Members].
func (m *Members) Members(ctx context.Context) (all []levels.Member, err error) {
	err = m.db.read(ctx, func(s *session) (err error) {
		all, err = m.read(s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: members: %w", err)
	}
	levels.SortMembers(all)
	return all, nil
}

// read returns those that aren't forgotten.
func (m *Members) read(s *session) ([]levels.Member, error) {
	var text []byte
	if _, err := s.row("SELECT progress FROM progress WHERE corpus = ?", []any{membersRow}, &text); err != nil || len(text) == 0 {
		return nil, err
	}
	var all []levels.Member
	err := json.Unmarshal(text, &all)
	now := time.Now() // by which members tell of themselves
	return slices.DeleteFunc(all, func(member levels.Member) bool { return member.Forgotten(now) }), err
}
