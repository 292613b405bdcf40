package client

import (
	"bufio"
	"bytes"
	"io"
)

// event is a server-sent event.
type event struct {
	name, id string
	data     []byte
}

// largestEvent is the most bytes of one line of an event stream.
const largestEvent = 64 << 20

// readEvents calls fn with each event of a stream until its end. An event that isn't ended by an empty line is none.
func readEvents(src io.Reader, fn func(event) error) error {
	lines := bufio.NewScanner(src)
	lines.Buffer(make([]byte, 0, 64<<10), largestEvent)
	var e event
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			if e.data != nil {
				if err := fn(e); err != nil {
					return err
				}
			}
			e = event{id: e.id}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) { // a comment has no name
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
	}
	return lines.Err()
}
