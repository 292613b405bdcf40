package ingest

import (
	"context"
	"io"
)

// interruptible makes reading from a terminal or a pipe, which may wait for ever, end with its context. The read that waits can't be
// taken back: its goroutine ends with the next input, or with the process.
type interruptible struct {
	ctx context.Context // of the one ingest that it lives for
	src io.Reader
	buf []byte
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.buf) < len(p) {
		r.buf = make([]byte, len(p))
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := r.src.Read(r.buf[:len(p)])
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, r.buf[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}
