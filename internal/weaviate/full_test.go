package weaviate

import (
	"errors"
	"strings"
	"testing"

	"github.com/aerie-rag/aerie/internal/space"
)

// TestA18ReadOnlyShard: a server that takes no writes because its disk is nearly full says so in these words, for a call and for an
// object of a batch.
func TestA18ReadOnlyShard(t *testing.T) {
	for _, words := range []string{"store is read-only", "put object: shard is READONLY", "write segment: no space left on device", "flush: disk quota exceeded"} {
		for _, err := range []error{objectError(words), classified(&statusError{code: 500, text: words})} {
			if !space.Is(err) || !strings.HasPrefix(space.Plain(err).Error(), "the disk of Weaviate is full: make room on it") {
				t.Errorf("%q: %v", words, err)
			}
		}
	}
	if err := classified(errors.New("something else")); space.Is(err) {
		t.Errorf("%v is taken for a full disk", err)
	}
}
