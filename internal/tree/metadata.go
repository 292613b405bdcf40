package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Metadata holds the caller's flat properties of a leaf: string, float64, int64, bool, or a slice of one of these. A whole number
// is an int64 from 2^53 on, where a float64 would lose digits, and a float64 below: so each has one form, and equal numbers are
// equal values.
type Metadata map[string]any

// wholeFrom is the size from which whole numbers are int64.
const wholeFrom = 1 << 53

// Number reads a number of JSON without losing digits of a whole one. One that has more than 64 bits is an error.
func Number(literal string) (any, error) {
	if !strings.ContainsAny(literal, ".eE") {
		n, err := strconv.ParseInt(literal, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number %s doesn't fit into 64 bits (-9223372036854775808 to 9223372036854775807); write it as a text", literal)
		}
		return whole(n), nil
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s is out of range", literal)
	}
	return Canonical(f), nil
}

func whole(n int64) any {
	if n > -wholeFrom && n < wholeFrom {
		return float64(n)
	}
	return n
}

// Canonical returns a value in the one form that it has in Metadata, and anything that has none as it is.
func Canonical(v any) any {
	switch v := v.(type) {
	case int64:
		return whole(v)
	case float64:
		if f := math.Trunc(v); f == v && math.Abs(v) >= wholeFrom && v >= math.MinInt64 && v < -math.MinInt64 {
			return int64(v)
		}
	case []float64:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = Canonical(x)
		}
		if out, err := List(list); err == nil {
			return out
		}
	case []int64:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = whole(x)
		}
		if out, err := List(list); err == nil {
			return out
		}
	}
	return v
}

// List gives a list of values of Metadata the type of its elements; an empty one is []string. Large whole numbers beside fractions are
// an error, since no type holds both, and so are elements of several kinds.
func List(list []any) (any, error) {
	if len(list) == 0 {
		return []string{}, nil
	}
	if texts, ok := typed[string](list); ok {
		return texts, nil
	}
	if bools, ok := typed[bool](list); ok {
		return bools, nil
	}
	if numbers, ok := typed[float64](list); ok {
		return numbers, nil
	}
	large := make([]int64, 0, len(list))
	for _, v := range list {
		switch v := v.(type) {
		case int64:
			large = append(large, v)
		case float64:
			if v != math.Trunc(v) || math.Abs(v) >= wholeFrom {
				return nil, fmt.Errorf("holds a list with fractions beside whole numbers of more than 53 bits; write these as texts")
			}
			large = append(large, int64(v))
		default:
			return nil, fmt.Errorf("holds a list of several kinds; one list holds strings, numbers or booleans")
		}
	}
	return large, nil
}

func typed[T any](list []any) ([]T, bool) {
	out := make([]T, 0, len(list))
	for _, v := range list {
		t, ok := v.(T)
		if !ok {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

// UnmarshalJSON reads what was written as JSON: numbers exactly, lists by the type of their elements. A number that no 64 bits hold,
// which only an earlier aerie let in, is the nearest float64.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return err
	}
	for key, v := range raw {
		raw[key] = stored(v)
	}
	*m = raw
	return nil
}

func stored(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := Number(v.String()); err == nil {
			return n
		}
		f, _ := v.Float64() // an infinity at the worst
		return f
	case []any:
		for i := range v {
			v[i] = stored(v[i])
		}
		if list, err := List(v); err == nil {
			return list
		}
		numbers := make([]float64, len(v))
		for i, x := range v {
			switch x := x.(type) {
			case float64:
				numbers[i] = x
			case int64:
				numbers[i] = float64(x)
			}
		}
		return numbers
	}
	return v
}

// CompareValues orders two single values of one kind, exactly; ok is false where they are of different kinds.
func CompareValues(a, b any) (order int, ok bool) {
	switch a := Canonical(a).(type) {
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok
	case bool:
		b, ok := b.(bool)
		return truth(a) - truth(b), ok
	case float64:
		switch b := Canonical(b).(type) {
		case float64:
			return compareFloats(a, b), true
		case int64:
			return -compareWhole(b, a), true
		}
	case int64:
		switch b := Canonical(b).(type) {
		case float64:
			return compareWhole(a, b), true
		case int64:
			if a != b {
				return 2*truth(a > b) - 1, true
			}
			return 0, true
		}
	}
	return 0, false
}

func truth(v bool) int {
	if v {
		return 1
	}
	return 0
}

func compareFloats(a, b float64) int { return truth(a > b) - truth(a < b) }

// compareWhole compares a whole number of at least 2^53 with a float64 that isn't one: it is smaller, or larger than any int64.
func compareWhole(n int64, f float64) int {
	switch {
	case f >= -math.MinInt64:
		return -1
	case f < math.MinInt64:
		return 1
	}
	return compareFloats(float64(n), f)
}
