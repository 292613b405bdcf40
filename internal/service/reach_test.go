package service_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/service"
	"github.com/aerie-rag/aerie/internal/service/servicetest"
)

// TestA26StatusWithoutTheQueue: a status doesn't need the queue, and says that it is away and what to do.
func TestA26StatusWithoutTheQueue(t *testing.T) {
	place := servicetest.Open(t, t.TempDir())
	away := true
	place.Reach = func(_ context.Context, needs ...service.Server) error {
		if !away || !slices.Contains(needs, service.ServerQueue) {
			return nil
		}
		return &api.Error{Err: queue.ErrUnavailable, Hint: "start it", Exit: api.ExitUnreachable}
	}
	s := place.Service(t)
	status, err := s.Status(t.Context(), "")
	if err != nil || len(status.Away) != 1 || !strings.HasPrefix(status.Away[0], queue.ErrUnavailable.Error()) || !strings.HasSuffix(status.Away[0], "start it") {
		t.Errorf("%v, away: %q", err, status.Away)
	}
	away = false
	if status, err = s.Status(t.Context(), ""); err != nil || status.Away == nil || len(status.Away) != 0 {
		t.Errorf("%v, away: %#v; want an empty list", err, status.Away)
	}
}
