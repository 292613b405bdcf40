package weaviate

import (
	"context"
	"fmt"
	"math"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
)

// operators are those that the server has too.
var operators = map[store.Op]pb.Filters_Operator{
	store.Equal: pb.Filters_OPERATOR_EQUAL, store.Less: pb.Filters_OPERATOR_LESS_THAN, store.LessOrEqual: pb.Filters_OPERATOR_LESS_THAN_EQUAL,
	store.Greater: pb.Filters_OPERATOR_GREATER_THAN, store.GreaterOrEqual: pb.Filters_OPERATOR_GREATER_THAN_EQUAL,
}

// compileWhere returns what the server can tell of a condition: nil if no property can meet it or, with loose, if it can tell nothing.
func (c *collection) compileWhere(w store.Where) (filter *pb.Filters, loose bool) {
	switch w.Op {
	case store.NotEqual:
		return nil, true // the server knows no complement that keeps the leaves without the key
	case store.Exists:
		return c.compileExists(w.Key)
	case store.In:
		var some []*pb.Filters
		list, _ := w.Value.([]any)
		for _, v := range list {
			one, inexact := c.compileValue(w.Key, store.Equal, v)
			if one == nil && inexact {
				return nil, true
			}
			loose = loose || inexact
			if one != nil {
				some = append(some, one)
			}
		}
		return or(some), loose && len(some) > 0
	}
	return c.compileValue(w.Key, w.Op, w.Value)
}

// compileExists keeps what has a key. Of texts the server's index lacks those that are blank.
func (c *collection) compileExists(key string) (filter *pb.Filters, loose bool) {
	var some []*pb.Filters
	for _, k := range []kind{kindNumber, kindBoolean, kindText} {
		for _, name := range c.names(key, k) {
			switch k {
			case kindText:
				return nil, true
			case kindNumber:
				some = append(some, &pb.Filters{Operator: pb.Filters_OPERATOR_GREATER_THAN_EQUAL, Target: target(name), TestValue: &pb.Filters_ValueNumber{ValueNumber: -math.MaxFloat64}})
			case kindBoolean:
				for _, v := range []bool{false, true} {
					some = append(some, &pb.Filters{Operator: pb.Filters_OPERATOR_EQUAL, Target: target(name), TestValue: &pb.Filters_ValueBoolean{ValueBoolean: v}})
				}
			}
			if c.properties[name] != dataTypes[k] { // a list may be empty
				return nil, true
			}
		}
	}
	return or(some), false
}

// names returns the properties that hold single values and lists of a kind.
func (c *collection) names(key string, k kind) []string {
	var names []string
	for _, k := range []kind{k, k.list()} {
		if name, ok := c.metadataName(key, k); ok {
			names = append(names, name)
		}
	}
	return names
}

// compileValue keeps what has a value that compares so with another.
func (c *collection) compileValue(key string, op store.Op, value any) (filter *pb.Filters, loose bool) {
	names := c.names(key, kindsOf(value)[0])
	if len(names) == 0 {
		return nil, false
	}
	var some []*pb.Filters
	for _, name := range names {
		f := &pb.Filters{Operator: operators[op], Target: target(name)}
		switch v := value.(type) {
		case string:
			values, inexact := c.indexed([]string{v})
			loose = loose || inexact
			// The index orders texts without the white space at their ends, and lacks those that are blank, which come first.
			if values == nil || op != store.Equal && (inexact || op == store.Less || op == store.LessOrEqual) {
				return nil, true
			}
			f.TestValue = &pb.Filters_ValueText{ValueText: values[0]}
		case float64:
			f.TestValue = &pb.Filters_ValueNumber{ValueNumber: v}
		case int64: // the index holds the nearest float64, which several have in common
			loose = true
			f.TestValue = &pb.Filters_ValueNumber{ValueNumber: float64(v)}
			switch op {
			case store.Less:
				f.Operator = pb.Filters_OPERATOR_LESS_THAN_EQUAL
			case store.Greater:
				f.Operator = pb.Filters_OPERATOR_GREATER_THAN_EQUAL
			}
		case bool:
			f.TestValue = &pb.Filters_ValueBoolean{ValueBoolean: v}
		}
		some = append(some, f)
	}
	return or(some), loose
}

func or(all []*pb.Filters) *pb.Filters {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &pb.Filters{Operator: pb.Filters_OPERATOR_OR, Filters: all}
}

// knows reports whether the collection has a property for each key that a filter names.
func (c *collection) knows(filter *store.Filter) bool {
	for _, w := range filter.Conditions() {
		known := false
		for _, k := range []kind{kindText, kindNumber, kindBoolean} {
			known = known || len(c.names(w.Key, k)) > 0
		}
		if !known {
			return false
		}
	}
	return true
}

// MetadataKeys implements [store.Store].
func (s *Store) MetadataKeys(ctx context.Context, corpus string) ([]string, error) {
	c, err := s.refresh(ctx, corpus)
	if err != nil {
		return nil, fmt.Errorf("weaviate: corpus %s: metadata keys: %w", corpus, err)
	}
	if c == nil {
		return nil, nil
	}
	return c.metadataKeys(), nil
}
