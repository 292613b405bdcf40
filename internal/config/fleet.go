package config

import (
	"fmt"
	"strings"
)

// Fleet returns an *Error if a place is missing that daemons on several machines share.
func (c *Config) Fleet() error {
	var unset []string
	for _, place := range [][2]string{{"queue.url", c.Queue.URL}, {"state.url", c.State.URL}, {"store.url", c.Store.URL}} {
		if place[1] == "" {
			unset = append(unset, place[0])
		}
	}
	if len(unset) == 0 {
		return nil
	}
	return &Error{Key: unset[0], Hint: "on one machine `aerie build` does the whole work without them",
		problem: fmt.Sprintf("%s must be set, because the daemons of a fleet share NATS, Redis and Weaviate: "+
			"queue.url (nats://...), state.url (redis://...) and store.url (http://...)", strings.Join(unset, ", "))}
}
