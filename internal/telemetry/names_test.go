package telemetry_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/telemetry"
)

// update rewrites the table in docs/metrics.md.
var update = flag.Bool("update", false, "rewrite the table in docs/metrics.md")

const document = "../../docs/metrics.md"

// TestMetricsAreNamedByTheRules holds the names, labels and units of DESIGN: aerie_<thing>_<unit>, and no label that
// grows with the work.
func TestMetricsAreNamedByTheRules(t *testing.T) {
	allowed := []string{"corpus", "level", "model", "outcome", "cause"}
	form := regexp.MustCompile(`^aerie(_[a-z]+)+$`)
	seen := map[string]bool{}
	for _, m := range telemetry.Metrics {
		if seen[m.Name] {
			t.Errorf("%s has two rows", m.Name)
		}
		seen[m.Name] = true
		if !form.MatchString(m.Name) {
			t.Errorf("%s is not of the form aerie_<thing>_<unit>", m.Name)
		}
		if total := strings.HasSuffix(m.Name, "_total"); total != (m.Kind == telemetry.Counter) {
			t.Errorf("%s is a %s: counters, and only they, end with _total", m.Name, m.Kind)
		}
		base := strings.TrimSuffix(m.Name, "_total")
		if units := []string{"seconds", "tokens", "ratio"}; slices.Contains(units, m.Unit) && !strings.HasSuffix(base, "_"+m.Unit) {
			t.Errorf("%s is in %s, and its name doesn't say so", m.Name, m.Unit)
		}
		for _, l := range m.Labels {
			if !slices.Contains(allowed, l) && m.Name != telemetry.Requests {
				t.Errorf("%s has label %q; allowed are %v", m.Name, l, allowed)
			}
		}
		if m.Name == telemetry.Requests && !slices.Equal(m.Labels, []string{"route", "status"}) {
			t.Errorf("%s has labels %v", m.Name, m.Labels)
		}
		if (len(m.Outcomes) > 0) != slices.Contains(m.Labels, "outcome") && m.Name != telemetry.BuriedTasks {
			t.Errorf("%s lists outcomes %v under labels %v", m.Name, m.Outcomes, m.Labels)
		}
		if (len(m.Buckets) > 0) != (m.Kind == telemetry.Histogram) || !slices.IsSorted(m.Buckets) {
			t.Errorf("%s is a %s with buckets %v", m.Name, m.Kind, m.Buckets)
		}
		if m.Unit == "" || m.Help == "" || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s needs a unit, and a help that is a sentence", m.Name)
		}
	}
}

// TestDocument holds docs/metrics.md against the table.
func TestDocument(t *testing.T) {
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table: begin -->\n", "<!-- table: end -->\n"
	before, rest, ok := strings.Cut(string(raw), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", document, begin, end)
	}
	want := table()
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not as the table of metrics; go test ./internal/telemetry -update mends it (-want +got):\n%s", document, diff)
	}
	// What the text around the table names must exist too.
	known := map[string]bool{}
	for _, m := range telemetry.Metrics {
		for _, s := range m.Series() {
			known[s] = true
		}
	}
	for _, name := range regexp.MustCompile(`\baerie_[a-z_]+\*?`).FindAllString(before+after, -1) {
		if !known[name] && !strings.HasSuffix(name, "*") {
			t.Errorf("%s names %s, which isn't exported", document, name)
		}
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| metric | kind | labels | from | meaning |\n|---|---|---|---|---|\n")
	for _, m := range telemetry.Metrics {
		help := m.Help
		if len(m.Outcomes) > 0 {
			help += " Outcomes: " + strings.Join(m.Outcomes, ", ") + "."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.From, strings.ReplaceAll(help, "|", `\|`))
	}
	b.WriteByte('\n')
	return b.String()
}
