package queuetest

import "testing"

func TestMemoryJournal(t *testing.T) {
	JournalSuite(t, func(*testing.T) OpenedJournal { return OpenedJournal{Journal: NewJournal()} })
}
