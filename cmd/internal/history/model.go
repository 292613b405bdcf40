package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does to its document.
type kind string

// A change of a document isn't done at once: its leaves come and go one after the other, and readers may see some of both versions
// meanwhile. It is therefore two operations, begin and commit, within the time of the call. Two changes never overlap: nobody may
// begin before the other has committed, unless that one was never heard of again.
const (
	begin  kind = "begin"
	commit kind = "commit"
	read   kind = "read"
)

// input is one operation on one document.
type input struct {
	kind     kind
	document string
	version  int // that begins or is committed; its leaves are those of leavesOf. Each change has its own
}

// output is what its caller was told.
type output struct {
	// unknown: the caller was told nothing, or that it failed: it may have happened, in part, or not at all.
	unknown bool
	// seen are the leaves that a read has found, in order.
	seen []leaf
}

// leaf is a leaf as a reader sees it. The middle one of each version has the same text in all, and so the same id.
type leaf struct {
	index   int
	version int // 0 for the middle one
}

// state is what a document holds.
type state struct {
	// versions are those whose leaves may be there: one alone, whole, or what is left of several. 0 is the absent document.
	versions []int
	whole    bool
	// pending is the change under way, 0 for none; lost says that nobody knows whether it still is.
	pending int
	lost    bool
}

func (s state) with(version int) state {
	s.versions = append(slices.Clone(s.versions), version)
	slices.Sort(s.versions)
	s.versions = slices.Compact(s.versions)
	s.whole = false
	return s
}

// begun is the state after a change has begun; ok is false if it can't.
func (s state) begun(version int, lost bool) (state, bool) {
	switch {
	case s.pending == 0:
	case s.lost:
		s = s.with(s.pending)
	default:
		return s, false
	}
	s.pending, s.lost = version, lost
	return s, true
}

// model is a document as its clients may see it.
func model(deleted map[int]bool) porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{versions: []int{0}, whole: true}} },
		Step: func(from, in, out any) []any { return step(deleted, from.(state), in.(input), out.(output)) },
		Equal: func(a, b any) bool {
			x, y := a.(state), b.(state)
			return x.whole == y.whole && x.pending == y.pending && x.lost == y.lost && slices.Equal(x.versions, y.versions)
		},
		DescribeOperation: func(in, out any) string { return describe(deleted, in.(input), out.(output)) },
		DescribeState: func(s any) string {
			of := s.(state)
			return fmt.Sprintf("%v whole %t, pending %d (lost %t)", of.versions, of.whole, of.pending, of.lost)
		},
	}
	return nm.ToModel()
}

func step(deleted map[int]bool, s state, in input, out output) []any {
	var next []any
	switch in.kind {
	case begin:
		if out.unknown {
			next = append(next, s)
		}
		if begun, ok := s.begun(in.version, out.unknown); ok {
			next = append(next, begun)
		}
	case commit:
		if out.unknown {
			next = append(next, s)
		}
		if s.pending == in.version && s.lost == out.unknown {
			next = append(next, state{versions: []int{in.version}, whole: true})
		}
	case read:
		if s.allows(deleted, out.seen) {
			next = append(next, s)
		}
	}
	return next
}

// allows reports whether a reader may see these leaves.
func (s state) allows(deleted map[int]bool, seen []leaf) bool {
	if s.whole && s.pending == 0 {
		return slices.Equal(seen, leavesOf(deleted, s.versions[0]))
	}
	for _, l := range seen {
		if l.version != 0 && l.version != s.pending && !slices.Contains(s.versions, l.version) {
			return false
		}
	}
	return true
}

// leavesOf are the leaves of a version: none for the absent document and for a version that is a deletion.
func leavesOf(deleted map[int]bool, version int) []leaf {
	if version == 0 || deleted[version] {
		return nil
	}
	return []leaf{{0, version}, {1, 0}, {2, version}}
}

func describe(deleted map[int]bool, in input, out output) string {
	var b strings.Builder
	switch {
	case in.kind == read:
		fmt.Fprintf(&b, "read %s:", in.document)
		for _, l := range out.seen {
			fmt.Fprintf(&b, " %d/v%d", l.index, l.version)
		}
		if len(out.seen) == 0 {
			b.WriteString(" nothing")
		}
	case deleted[in.version]:
		fmt.Fprintf(&b, "%s deletion %d of %s", in.kind, in.version, in.document)
	default:
		fmt.Fprintf(&b, "%s version %d of %s", in.kind, in.version, in.document)
	}
	if out.unknown {
		b.WriteString(" (outcome unknown)")
	}
	return b.String()
}
