//go:build stack

package redisstate

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/store/storetest"
)

// TestA27Roster: a store whose documents are listed by Redis keeps the contract of stores.
func TestA27Roster(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return store.Listed(storetest.NewMemory(), sharedState(t).Roster()) })
}
