package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/tree"
)

// Op is how a condition compares.
type Op string

// The operators. A list holds what one of its elements holds; a key that a leaf lacks holds nothing, so that only NotEqual keeps the leaf.
// Numbers are compared with numbers, and texts with texts, by their bytes: a date as 2026-11-30 is compared as a date.
const (
	Equal          Op = "="
	NotEqual       Op = "!=" // the leaves that Equal doesn't keep
	Less           Op = "<"
	LessOrEqual    Op = "<="
	Greater        Op = ">"
	GreaterOrEqual Op = ">="
	In             Op = "in"     // equal to one of a list
	Exists         Op = "exists" // whatever the value
)

// Ops are all of them.
func Ops() []Op {
	return []Op{Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, In, Exists}
}

// Where is a condition on the metadata of a leaf. Value is a string, a finite number or a bool, for In a list of these, for Exists nothing.
type Where struct {
	Key   string `json:"key"`
	Op    Op     `json:"op" enum:"=,!=,<,<=,>,>=,in,exists"`
	Value any    `json:"value,omitempty"`
}

// UnmarshalJSON reads numbers exactly.
func (w *Where) UnmarshalJSON(data []byte) error {
	type plain Where
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode((*plain)(w)); err != nil {
		return err
	}
	var err error
	w.Value, err = exact(w.Value)
	return err
}

// exact reads the numbers of a decoded value.
func exact(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return tree.Number(v.String())
	case []any:
		for i := range v {
			var err error
			if v[i], err = exact(v[i]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

var (
	inList    = regexp.MustCompile(`^([^=<>!\s]+)\s+in\s+(\S.*)$`)
	isThere   = regexp.MustCompile(`^([^=<>!\s]+)\s+exists\s*$`)
	symbols   = regexp.MustCompile(`^([^=<>!]+)(!=|<=|>=|==|=|<|>)(.*)$`)
	writtenAs = "KEY=VALUE, KEY!=VALUE, KEY<VALUE, KEY<=VALUE, KEY>VALUE, KEY>=VALUE, \"KEY in A,B,C\" or \"KEY exists\""
)

// ParseWhere reads a condition as people write it: year>=2020, "lang in en,de", "isbn exists". A value that JSON has as a number, a
// bool or a text in quotes is that, any other a text.
func ParseWhere(text string) (Where, error) {
	if m := isThere.FindStringSubmatch(text); m != nil {
		return Where{Key: m[1], Op: Exists}, nil
	}
	if m := inList.FindStringSubmatch(text); m != nil {
		list, err := parseList(m[2])
		return Where{Key: m[1], Op: In, Value: list}, err
	}
	m := symbols.FindStringSubmatch(text)
	if m == nil || strings.TrimSpace(m[1]) == "" {
		return Where{}, fmt.Errorf("%q must be one of %s", text, writtenAs)
	}
	key, op, value := m[1], m[2], m[3]
	if op == "==" {
		op = "="
	}
	if trimmed := strings.TrimSpace(key); trimmed != key { // year >= 2020
		key, value = trimmed, strings.TrimSpace(value)
	}
	v, err := Scalar(value)
	return Where{Key: key, Op: Op(op), Value: v}, err
}

func parseList(text string) ([]any, error) {
	if strings.HasPrefix(text, "[") {
		var w Where
		if err := json.Unmarshal([]byte(`{"value":`+text+`}`), &w); err == nil {
			if list, ok := w.Value.([]any); ok {
				return list, nil
			}
		}
	}
	var list []any
	for part := range strings.SplitSeq(text, ",") {
		v, err := Scalar(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Scalar reads a value as JSON has it, and anything else as a text.
func Scalar(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return text, nil
	}
	switch v := v.(type) {
	case json.Number:
		return tree.Number(v.String())
	case string, bool:
		return v, nil
	}
	return text, nil
}

// String is the condition as ParseWhere reads it.
func (w Where) String() string {
	switch w.Op {
	case Exists:
		return w.Key + " exists"
	case In:
		list, _ := w.Value.([]any)
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = fmt.Sprint(v)
		}
		return w.Key + " in " + strings.Join(parts, ",")
	}
	return fmt.Sprintf("%s %s %v", w.Key, w.Op, w.Value)
}

// Check reports what is wrong with a condition.
func (w Where) Check() error {
	if w.Key == "" {
		return fmt.Errorf("a condition on metadata names no key")
	}
	switch w.Op {
	case Exists:
		if w.Value != nil {
			return fmt.Errorf("metadata %q exists takes no value, and has %v", w.Key, w.Value)
		}
		return nil
	case In:
		list, ok := w.Value.([]any)
		if !ok || len(list) == 0 || len(list) > mostValues {
			return fmt.Errorf("metadata %q in takes a list of 1 to %d values", w.Key, mostValues)
		}
		for _, v := range list {
			if !validValue(v, false) {
				return fmt.Errorf("metadata %q is asked to be a %T; it must be a string, a finite number or a bool", w.Key, v)
			}
		}
		return nil
	case Less, LessOrEqual, Greater, GreaterOrEqual:
		if _, ok := w.Value.(bool); ok {
			return fmt.Errorf("metadata %q: %s compares numbers and texts, not %v", w.Key, w.Op, w.Value)
		}
	case Equal, NotEqual:
	default:
		return fmt.Errorf("metadata %q: %q is no operator; there is %v", w.Key, w.Op, Ops())
	}
	if !validValue(w.Value, false) {
		return fmt.Errorf("metadata %q is asked to be a %T; it must be a string, a finite number or a bool", w.Key, w.Value)
	}
	return nil
}

// mostValues is how many values a condition may list.
const mostValues = 1000

// Holds reports whether metadata meets the condition.
func (w Where) Holds(metadata tree.Metadata) bool {
	got, ok := metadata[w.Key]
	switch w.Op {
	case Exists:
		return ok
	case NotEqual:
		return !ok || !anyOf(got, func(v any) bool { return same(v, w.Value) })
	}
	return ok && anyOf(got, w.meets)
}

// meets reports whether a single value meets the condition.
func (w Where) meets(v any) bool {
	if w.Op == In {
		list, _ := w.Value.([]any)
		return slices.ContainsFunc(list, func(want any) bool { return same(v, want) })
	}
	order, ok := tree.CompareValues(v, w.Value)
	if !ok {
		return false
	}
	switch w.Op {
	case Equal:
		return order == 0
	case Less:
		return order < 0
	case LessOrEqual:
		return order <= 0
	case Greater:
		return order > 0
	case GreaterOrEqual:
		return order >= 0
	}
	return false
}

func same(a, b any) bool {
	order, ok := tree.CompareValues(a, b)
	return ok && order == 0
}

// anyOf reports whether a value, or one element of a list, is as asked.
func anyOf(value any, is func(any) bool) bool {
	switch list := value.(type) {
	case []string:
		return slices.ContainsFunc(list, func(v string) bool { return is(v) })
	case []float64:
		return slices.ContainsFunc(list, func(v float64) bool { return is(v) })
	case []int64:
		return slices.ContainsFunc(list, func(v int64) bool { return is(v) })
	case []bool:
		return slices.ContainsFunc(list, func(v bool) bool { return is(v) })
	}
	return is(value)
}

// Conditions returns all that the filter asks of metadata: of Metadata by key, then of Where. Values have their one form.
func (f *Filter) Conditions() []Where {
	var all []Where
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		all = append(all, Where{Key: key, Op: Equal, Value: tree.Canonical(f.Metadata[key])})
	}
	for _, w := range f.Where {
		w.Value = tree.Canonical(w.Value)
		all = append(all, w)
	}
	return all
}

// OnMetadata reports whether the filter asks anything of metadata, and so keeps leaves alone.
func (f *Filter) OnMetadata() bool { return len(f.Metadata)+len(f.Where) > 0 }

// SelectsMetadata reports whether a leaf's metadata meets every condition.
func (f *Filter) SelectsMetadata(metadata tree.Metadata) bool {
	for _, w := range f.Conditions() {
		if !w.Holds(metadata) {
			return false
		}
	}
	return true
}

func validValue(value any, lists bool) bool {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch v := value.(type) {
	case string, bool, int64:
		return true
	case float64:
		return finite(v)
	case []string, []bool, []int64:
		return lists
	case []float64:
		return lists && !slices.ContainsFunc(v, func(x float64) bool { return !finite(x) })
	}
	return false
}
