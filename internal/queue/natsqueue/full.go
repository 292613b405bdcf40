package natsqueue

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/aerie-rag/aerie/internal/space"
)

// Codes of the server for what has no room, of which package jetstream has no constants.
const (
	codeAccountLimit jetstream.ErrorCode = 10002 // an account's limit is reached
	codeResources    jetstream.ErrorCode = 10023 // the server's are
	codeMemory       jetstream.ErrorCode = 10028
	codeStorage      jetstream.ErrorCode = 10047
	codeStoreFailed  jetstream.ErrorCode = 10077 // a stream didn't take a message; the description says why
)

// overLimit are descriptions of codeStoreFailed for a stream that holds what it may. Each subject of the streams holds one message, and
// a second one for it is refused in other words.
var overLimit = []string{"maximum bytes exceeded", "maximum messages exceeded", "resource limits exceeded", "insufficient"}

// asFull returns an error that says that the queue has no room, with what to do; nil if err doesn't.
func (c *Conn) asFull(err error) error {
	var full *space.FullError
	if errors.As(err, &full) {
		return err
	}
	full = &space.FullError{Where: "JetStream of " + c.url, Err: err,
		Free: "make room on its disk or raise its limits, and start it again if it has switched JetStream off"}
	if c.dir != "" {
		full.Where, full.Free = "the disk of the queue in "+c.home, "make room on it"
		if why := c.noSpace(); why != nil {
			full.Err = why
			return full
		}
	}
	var answer *jetstream.APIError
	switch {
	case space.Is(err), isFullAnswer(err):
		return full
	case errors.As(err, &answer) && space.Told(answer.Description):
		return full
	}
	return nil
}

// isFullAnswer reports whether the server's answer is that a limit is reached.
func isFullAnswer(err error) bool {
	for _, code := range []jetstream.ErrorCode{codeAccountLimit, codeResources, codeMemory, codeStorage} {
		if apiCode(err, code) {
			return true
		}
	}
	return apiCode(err, codeStoreFailed) && mentionsLimit(err)
}

func mentionsLimit(err error) bool {
	for _, words := range overLimit {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
