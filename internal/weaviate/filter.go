package weaviate

import (
	"slices"
	"strings"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// condition is a filter in the server's form.
type condition struct {
	// filter is nil if it keeps everything.
	filter *pb.Filters
	// none: no node can be kept, since none has such metadata.
	none bool
	// loose: the server keeps more than it should, and what it returns must be looked at. Its index of keys leaves out
	// white space at their ends.
	loose bool
}

// compile returns the condition of a filter. alive keeps deleted nodes out too.
func (c *collection) compile(f *store.Filter, alive bool) condition {
	var out condition
	var all []*pb.Filters
	if f.At != nil {
		all = append(all, compare(propBorn, pb.Filters_OPERATOR_LESS_THAN_EQUAL, *f.At), compare(propDied, pb.Filters_OPERATOR_GREATER_THAN, *f.At))
	}
	if alive && (f.At == nil || *f.At < tree.Deleted) {
		all = append(all, compare(propDied, pb.Filters_OPERATOR_GREATER_THAN, tree.Deleted))
	}
	switch low, high := f.MinLevel, f.MaxLevel; {
	case low == high || f.OnMetadata() && low == 0:
		all = append(all, compare(propLevel, pb.Filters_OPERATOR_EQUAL, low))
	default:
		if low > 0 {
			all = append(all, compare(propLevel, pb.Filters_OPERATOR_GREATER_THAN_EQUAL, low))
		}
		if high >= 0 {
			all = append(all, compare(propLevel, pb.Filters_OPERATOR_LESS_THAN_EQUAL, high))
		}
	}
	if len(f.Documents) > 0 {
		values, loose := c.indexed(f.Documents)
		if out.loose = loose; values != nil {
			all = append(all, containsAny(propDocument, values))
		}
	}
	if len(f.Paths) > 0 {
		if !c.has(propPath) {
			return condition{none: true}
		}
		values, loose := c.indexed(f.Paths)
		if out.loose = out.loose || loose; values != nil {
			all = append(all, containsAny(propPath, values))
		}
	}
	for _, w := range f.Conditions() {
		filter, loose := c.compileWhere(w)
		out.loose = out.loose || loose
		switch {
		case filter == nil && !loose:
			return condition{none: true}
		case filter != nil:
			all = append(all, filter)
		}
	}
	if f.OnMetadata() && f.MinLevel > 0 {
		return condition{none: true} // summaries have no metadata
	}
	out.filter = and(all)
	return out
}

// indexed returns texts as the server's index of keys holds them, and whether others may be held in the same way. It
// returns nil if one of them isn't in the index at all.
func (c *collection) indexed(texts []string) (values []string, loose bool) {
	loose = c.has(propUntrimmed)
	for _, text := range texts {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" {
			return nil, true
		}
		loose = loose || trimmed != text
		values = append(values, trimmed)
	}
	return values, loose
}

// hasUntrimmed reports whether a key of the node begins or ends with white space.
func hasUntrimmed(n *tree.Node) bool {
	untrimmed := func(s string) bool { return strings.TrimSpace(s) != s }
	if untrimmed(n.DocumentID) || untrimmed(n.Path) {
		return true
	}
	for _, value := range n.Metadata {
		switch v := value.(type) {
		case string:
			if untrimmed(v) {
				return true
			}
		case []string:
			if slices.ContainsFunc(v, untrimmed) {
				return true
			}
		}
	}
	return false
}

func and(all []*pb.Filters) *pb.Filters {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &pb.Filters{Operator: pb.Filters_OPERATOR_AND, Filters: all}
}

func target(property string) *pb.FilterTarget {
	return &pb.FilterTarget{Target: &pb.FilterTarget_Property{Property: property}}
}

func compare(property string, operator pb.Filters_Operator, value int) *pb.Filters {
	return &pb.Filters{Operator: operator, Target: target(property), TestValue: &pb.Filters_ValueInt{ValueInt: int64(value)}}
}

func containsAny(property string, values []string) *pb.Filters {
	return &pb.Filters{
		Operator: pb.Filters_OPERATOR_CONTAINS_ANY, Target: target(property),
		TestValue: &pb.Filters_ValueTextArray{ValueTextArray: &pb.TextArray{Values: values}},
	}
}

// ofIDs keeps the nodes with these ids.
func ofIDs(ids []tree.ID) *pb.Filters {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return containsAny("_id", texts)
}

// everything keeps all nodes, for calls that want a filter.
func everything() *pb.Filters { return compare(propDied, pb.Filters_OPERATOR_GREATER_THAN_EQUAL, 0) }
