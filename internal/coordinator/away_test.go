package coordinator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aerie-rag/aerie/internal/coordinator"
	"github.com/aerie-rag/aerie/internal/levels"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/store"
)

func TestAway(t *testing.T) {
	for _, err := range []error{queue.ErrUnavailable, store.ErrUnavailable, levels.ErrUnavailable} {
		if !coordinator.Away(fmt.Errorf("wrapped: %w", err)) || coordinator.Away(errors.New(err.Error())) {
			t.Errorf("%v", err)
		}
	}
}
