package evaluate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// FAULTS: parthsarthi03/raptor 55, 74: leaves alone are the baseline beside the tree. The last arm has the options of a query
// to which nothing is said.
func TestStandardArmsAreValid(t *testing.T) {
	arms, err := settle(Grid(StandardArms("c"), 250, 500), "leaf/similarity")
	if err != nil || len(arms) != 16 {
		t.Fatalf("%d arms, %v", len(arms), err)
	}
	if *arms[8].Request.Budget != 500 || arms[8].Group != "500 tokens" || *arms[0].Request.Budget != 250 {
		t.Errorf("budgets are %d and %d", *arms[0].Request.Budget, *arms[8].Request.Budget)
	}
	if first := arms[0].Request; *first.MaxLevel != 0 || *first.Pack != retrieve.Similarity || *first.Alpha != 1 {
		t.Errorf("the baseline is %+v", first)
	}
	defaults := retrieve.Request{Corpus: "c", Options: retrieve.Defaults()}
	defaults.Budget = new(500)
	if diff := cmp.Diff(defaults, arms[15].Request); diff != "" {
		t.Errorf("the last arm is not the default (-want +got):\n%s", diff)
	}
}
