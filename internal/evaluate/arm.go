package evaluate

import (
	"fmt"
	"slices"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// Arm is a set of retrieval options with a name.
type Arm struct {
	// Name stands in every row about the arm. It is unique within the group.
	Name string `json:"name"`
	// Group holds the arms that are compared with one another, such as those with the same budget; may be empty.
	Group string `json:"group"`
	// Request holds the options, the corpus among them; the query is set for every question.
	Request retrieve.Request `json:"request"`
}

// Grid returns every arm at every budget, a group for each budget.
func Grid(arms []Arm, budgets ...int) []Arm {
	var out []Arm
	for _, budget := range budgets {
		for _, arm := range arms {
			arm.Group, arm.Request.Budget = fmt.Sprintf("%d tokens", budget), new(budget)
			out = append(out, arm)
		}
	}
	return out
}

// settle returns the arms with every option of their requests, or a *retrieve.UsageError that names the arm.
func settle(arms []Arm, baseline string) ([]Arm, error) {
	if len(arms) == 0 {
		return nil, &retrieve.UsageError{Problems: []string{"there is no arm to evaluate"}}
	}
	var bad []string
	settled := slices.Clone(arms)
	type key struct{ group, name string }
	seen := map[key]bool{}
	groups := map[string]bool{}
	for i, arm := range arms {
		if arm.Name == "" {
			bad = append(bad, "an arm has no name")
		}
		if k := (key{arm.Group, arm.Name}); seen[k] {
			bad = append(bad, fmt.Sprintf("two arms are named %q", arm.Name))
		} else {
			seen[k] = true
		}
		groups[arm.Group] = groups[arm.Group] || arm.Name == baseline
		req := arm.Request
		req.Query = "any"
		req, err := req.Settled()
		if err != nil {
			bad = append(bad, fmt.Sprintf("arm %q: %v", arm.Name, err))
		}
		req.Query = arm.Request.Query
		settled[i].Request = req
	}
	for _, arm := range arms {
		if has, open := groups[arm.Group]; baseline != "" && open && !has {
			bad = append(bad, fmt.Sprintf("the baseline %q is no arm of group %q", baseline, arm.Group))
			delete(groups, arm.Group)
		}
	}
	if len(bad) > 0 {
		return nil, &retrieve.UsageError{Problems: bad}
	}
	return settled, nil
}
