package wire

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// LockDocuments keeps other processes from changing a corpus's documents in these embedded places, until unlock or the end of this
// process. It waits for them until ctx ends.
func (p *Places) LockDocuments(ctx context.Context, corpus string) (unlock func(), err error) {
	dir := filepath.Join(p.dir, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("home %s: %w", p.dir, err)
	}
	const look = 50 * time.Millisecond
	held := flock.New(filepath.Join(dir, corpus+".documents")) // a corpus's name is a file's
	if _, err := held.TryLockContext(ctx, look); err != nil {
		return nil, fmt.Errorf("home %s: waiting for another process that changes corpus %s: %w", p.dir, corpus, err)
	}
	// The file stays: removing it would let a third process lock a new one beside it.
	return func() { _ = held.Unlock() }, nil
}
