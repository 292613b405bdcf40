package queue

import (
	"fmt"
	"strings"
)

// CheckHeaders reports why headers can't travel with a task.
func CheckHeaders(headers map[string]string) error {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
		if name == "" || strings.HasPrefix(name, "nats-") {
			return fmt.Errorf("its header %q has no name, or one that is the server's", name)
		}
		for _, c := range []byte(name) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
				return fmt.Errorf("the name of its header %q must be of a-z, 0-9 and \"-\"", name)
			}
		}
		for i, c := range []byte(value) {
			if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(value)-1) {
				return fmt.Errorf("the value of its header %s must be printable ASCII, without space at either end", name)
			}
		}
	}
	if size > MaxHeaderBytes {
		return fmt.Errorf("its headers have %d bytes; at most %d are allowed", size, MaxHeaderBytes)
	}
	return nil
}
