package queuetest

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/llm"
)

func TestMemoryJournal(t *testing.T) {
	JournalSuite(t, func(*testing.T) OpenedJournal {
		j := NewJournal()
		return OpenedJournal{Journal: j, Restart: func() llm.Journal { return j }}
	})
}
