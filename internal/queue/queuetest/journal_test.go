package queuetest

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/journal"
)

func TestMemoryJournal(t *testing.T) {
	JournalSuite(t, func(*testing.T) OpenedJournal {
		j := NewJournal()
		return OpenedJournal{Journal: j, Restart: func() journal.Journal { return j }}
	})
}
