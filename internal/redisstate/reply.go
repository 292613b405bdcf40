package redisstate

import (
	"fmt"
	"strconv"
)

// reply is what a script returns: a word that says how it went, then values.
type reply []any

// word returns the first value.
func (r reply) word() string { return r.text(0) }

// text returns a value as text; "" if there is none.
func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	switch v := r[i].(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// numbers returns n values from the i-th on as numbers.
func (r reply) numbers(i, n int) ([]int64, error) {
	out := make([]int64, n)
	for k := range out {
		v, err := strconv.ParseInt(r.text(i+k), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reply %v of a script: value %d is no number", []any(r), i+k)
		}
		out[k] = v
	}
	return out, nil
}
