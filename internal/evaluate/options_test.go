package evaluate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

func TestReadArms(t *testing.T) {
	base := retrieve.NewRequest("c", "")
	base.MaxLevel = new(int)
	*base.MaxLevel = 3
	want := []Arm{{Name: "plain", Request: base}, {Name: "b", Group: "g", Request: base}}
	level := 0
	want[1].Request.Mode, want[1].Request.Boost, want[1].Request.MaxLevel = retrieve.Boost, 1.5, &level
	want[1].Request.Corpus, want[1].Request.Metadata = "other", map[string]any{"year": 2020.0}
	const plain, b = `{"name":"plain"}`, `{"name":"b","group":"g","mode":"boost","boost":1.5,"max_level":0,"corpus":"other","metadata":{"year":2020}}`
	for _, text := range []string{plain + "\n" + b, "[" + plain + "," + b + "]"} {
		got, err := ReadArms(strings.NewReader(text), base)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if *base.MaxLevel != 3 {
		t.Error("reading an arm changed the options of the others")
	}
	for text, says := range map[string]string{
		"":                         "there is none",
		"{":                        "unexpected",
		"[]":                       "there is none",
		`{"mode":"boost"}`:         "number 1: an arm has no name",
		`{"name":"x","bost":1}`:    `arm "x"`,
		`{"name":"x","query":"q"}`: "set by the questions",
		`{"name":"x"} {"name":"y","alpha":"much"}`: `number 2: arm "y"`,
	} {
		if _, err := ReadArms(strings.NewReader(text), base); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error is %v, want one that says %q", text, err, says)
		}
	}
}

func TestParseArm(t *testing.T) {
	base := retrieve.NewRequest("c", "")
	got, err := ParseArm("wide: mode=boost, boost=1.5,min-level=1,leaves_only=false", base)
	want := Arm{Name: "wide", Request: base}
	one := 1
	want.Request.Mode, want.Request.Boost, want.Request.MinLevel = retrieve.Boost, 1.5, &one
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err = ParseArm("plain", base); err != nil || got.Name != "plain" {
		t.Errorf("%+v, %v", got, err)
	}
	for text, says := range map[string]string{
		":mode=boost":  "no name",
		"x:mode":       "no OPTION=VALUE",
		"x:moode=fine": "moode",
		"x:boost=big":  "boost",
	} {
		if _, err := ParseArm(text, base); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error is %v, want one that says %q", text, err, says)
		}
	}
}

func TestStandardArmsAreValid(t *testing.T) {
	arms := Grid(StandardArms(retrieve.NewRequest("c", "")), 250, 500)
	if err := validateArms(arms, "leaf/similarity"); err != nil || len(arms) != 16 {
		t.Errorf("%d arms, %v", len(arms), err)
	}
	if arms[8].Request.Budget != 500 || arms[8].Group != "500 tokens" || arms[0].Request.Budget != 250 {
		t.Errorf("budgets are %d and %d", arms[0].Request.Budget, arms[8].Request.Budget)
	}
}
