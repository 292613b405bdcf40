package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestA7Views: who wants a tree that somebody reads waits for that, who gives up doesn't, and who wants another tree waits for nobody.
func TestA7Views(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s views
		gate, reads := make(chan struct{}), 0
		slow := func() (*view, error) { reads++; <-gate; return &view{corpus: "a", generation: 1}, nil }
		a, b := viewKey{"a", 1, 5}, viewKey{"b", 1, 5}
		got := make(chan *view, 8)
		for range 8 {
			go func() {
				v, err := s.get(t.Context(), a, slow)
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.get(gone, a, slow); !errors.Is(err, context.Canceled) {
			t.Errorf("who gives up: %v", err)
		}
		other, err := s.get(t.Context(), b, func() (*view, error) { return &view{corpus: "b", generation: 1}, nil })
		if err != nil || other.corpus != "b" {
			t.Errorf("another tree: %+v, %v", other, err)
		}
		close(gate)
		first := <-got
		for range 7 {
			if v := <-got; v != first {
				t.Error("two views of one tree")
			}
		}
		if reads != 1 {
			t.Errorf("the tree was read %d times", reads)
		}
		failing := errors.New("the store is away")
		if _, err := s.get(t.Context(), viewKey{"c", 1, 1}, func() (*view, error) { return nil, failing }); !errors.Is(err, failing) {
			t.Errorf("%v", err)
		}
	})
}
