package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// errTardy: a body that comes more slowly than anybody who means it sends one.
var errTardy = errors.New("the body comes too slowly")

// patientBody bounds how long a body may be waited for: at most idle at a stretch, and all in all idle and the time that its bytes
// take at the least rate. Only waiting counts, so that a reader of this side who takes his time costs the client nothing. The
// deadline is lifted at the body's end, since the connection is watched from there on, and a handler may take its time.
type patientBody struct {
	readCloser
	control *http.ResponseController
	idle    time.Duration
	rate    int64 // bytes a second

	waited time.Duration
	got    int64
	ended  bool
}

type readCloser = interface {
	Read([]byte) (int, error)
	Close() error
}

func (b *patientBody) Read(p []byte) (int, error) {
	left := b.idle + time.Duration(b.got)*time.Second/time.Duration(b.rate) - b.waited
	if left <= 0 {
		return 0, errTardy
	}
	began := time.Now()
	b.control.SetReadDeadline(began.Add(min(left, b.idle))) // what can't have a deadline has none
	n, err := b.readCloser.Read(p)
	b.waited += time.Since(began)
	b.got += int64(n)
	if err == io.EOF { // after any other error nothing more is read, and the deadline sees to that
		b.ended = true
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// leave bounds what net/http does with the rest of a body that no handler has read: it looks a little further for its end.
func (b *patientBody) leave() {
	if !b.ended && b.readCloser != http.NoBody {
		b.control.SetReadDeadline(time.Now().Add(min(b.idle, 5*time.Second)))
	}
}

// pieceOf is how much of an answer a reader must take in the time that one write has.
const pieceOf = 16 << 10

// patientWriter bounds how long a reader may take for each piece of an answer, and notes what became of it.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration
	status  int // 0 before the head
}

// Unwrap is for [http.ResponseController].
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *patientWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	written := 0
	for {
		w.control.SetWriteDeadline(time.Now().Add(w.slow)) // what can't have a deadline has none
		n, err := w.ResponseWriter.Write(p[written:min(len(p), written+pieceOf)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}
