package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/space"
)

// TestA18DatabaseIsFull: a change for which there is no room says so, leaves nothing half done, and can be made once there is.
func TestA18DatabaseIsFull(t *testing.T) {
	db := scratch(t)
	limit := func(pages int) {
		t.Helper()
		err := db.read(t.Context(), func(*session) error { return nil })
		if err == nil {
			err = db.writer.session.exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // as many as there are
	many := func(s *session) error {
		return s.exec("WITH RECURSIVE n(v) AS (VALUES (1) UNION ALL SELECT v+1 FROM n WHERE v < 50000) INSERT INTO t SELECT v FROM n")
	}
	err := db.write(t.Context(), many)
	if !space.Is(err) || !strings.Contains(space.Plain(err).Error(), "the disk of the home folder is full: make room on it") {
		t.Errorf("%v, want a full disk with what to do", err)
	}
	if got := values(t, db); len(got) > 0 {
		t.Errorf("%d rows of it are there", len(got))
	}
	limit(1 << 30)
	if err := db.write(t.Context(), many); err != nil || len(values(t, db)) != 50000 {
		t.Errorf("with room: %v, %d rows", err, len(values(t, db)))
	}
}
