package store

import (
	"fmt"
	"math"
	"slices"

	"github.com/aerie-rag/aerie/internal/tree"
)

// CheckNode reports, wrapping [ErrInvalid] or [ErrWidth], why a node can't be stored in a corpus whose vectors
// have width values; 0 stands for a corpus that has no node yet.
func CheckNode(n *tree.Node, width int) error {
	switch {
	case n.ID.IsZero():
		return fmt.Errorf("%w: a node without an id", ErrInvalid)
	case n.Level < 0:
		return fmt.Errorf("%w: level %d is below 0", ErrInvalid, n.Level)
	case n.Unseen < 0 || n.Formed < 0:
		return fmt.Errorf("%w: %d unseen and %d formed tokens: both must be at least 0", ErrInvalid, n.Unseen, n.Formed)
	case n.Born < 0 || n.Died < 0 || n.Died > tree.Alive:
		return fmt.Errorf("%w: life from %d to %d is not within 0 to %d", ErrInvalid, n.Born, n.Died, tree.Alive)
	}
	if !n.IsLeaf() && (n.Context != "" || n.Source != "" || n.Path != "" || n.Updated != 0) {
		return fmt.Errorf("%w: a summary with a context or a source; only leaves have one", ErrInvalid)
	}
	for key, value := range n.Metadata {
		if !validValue(value, true) {
			return fmt.Errorf("%w: metadata %q is a %T; it must be a string, a finite number, a bool or a list of one of these", ErrInvalid, key, value)
		}
	}
	return CheckVector(n.Vector, width)
}

// CheckVector reports, wrapping [ErrInvalid] or [ErrWidth], why a vector can't be stored or searched for.
func CheckVector(v []float32, width int) error {
	if len(v) == 0 {
		return fmt.Errorf("%w: the vector is missing", ErrInvalid)
	}
	if width != 0 && len(v) != width {
		return fmt.Errorf("%w: %d values where the corpus has %d", ErrWidth, len(v), width)
	}
	zero := true
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: value %d of the vector is %v", ErrInvalid, i, x)
		}
		zero = zero && x == 0
	}
	if zero {
		return fmt.Errorf("%w: every value of the vector is 0", ErrInvalid)
	}
	return nil
}

// Validate reports, wrapping [ErrInvalid], why a store can't take the filter.
func (f *Filter) Validate() error {
	if f.MinLevel < 0 {
		return fmt.Errorf("%w filter: the lowest level %d is below 0", ErrInvalid, f.MinLevel)
	}
	if f.MaxLevel >= 0 && f.MaxLevel < f.MinLevel {
		return fmt.Errorf("%w filter: the highest level %d is below the lowest, %d", ErrInvalid, f.MaxLevel, f.MinLevel)
	}
	for _, w := range f.Conditions() {
		if err := w.Check(); err != nil {
			return fmt.Errorf("%w filter: %w", ErrInvalid, err)
		}
	}
	return nil
}

// Validate reports, wrapping [ErrInvalid], why a store can't answer the query; vectors are [CheckVector]'s.
func (q *Query) Validate() error {
	if q.Limit < 1 {
		return fmt.Errorf("%w query: the limit %d is below 1", ErrInvalid, q.Limit)
	}
	return q.Filter.Validate()
}

// Selects reports whether the filter keeps a node.
func (f *Filter) Selects(n *tree.Node) bool {
	if f.At != nil && !n.VisibleAt(*f.At) {
		return false
	}
	if n.Level < f.MinLevel || f.MaxLevel >= 0 && n.Level > f.MaxLevel {
		return false
	}
	if len(f.Documents) > 0 && !slices.Contains(f.Documents, n.DocumentID) {
		return false
	}
	if len(f.Paths) > 0 && !slices.Contains(f.Paths, n.Path) {
		return false
	}
	return !f.OnMetadata() || n.IsLeaf() && f.SelectsMetadata(n.Metadata)
}
