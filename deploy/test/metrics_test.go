package deploy_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"

	"github.com/aerie-rag/aerie/internal/telemetry"
)

// scraped are labels that Prometheus or Kubernetes adds to every series.
var scraped = []string{"namespace", "job", "instance", "pod", "le", "__name__"}

// foreign are series that come from Prometheus itself or from the libraries of the metrics.
var foreign = map[string][]string{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}

// checkExpr reports every metric that no program exports, and every label and outcome that the metrics don't have.
func checkExpr(t *testing.T, where, expr string) (names []string) {
	t.Helper()
	known := map[string]telemetry.Metric{}
	for _, m := range telemetry.Metrics {
		for _, s := range m.Series() {
			known[s] = m
		}
	}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return nil
	}
	may := slices.Clone(scraped)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names = append(names, selector.Name)
		m, exported := known[selector.Name]
		_, other := foreign[selector.Name]
		if !exported && !other {
			t.Errorf("%s: no program exports %s", where, selector.Name)
			return nil
		}
		may = append(may, m.Labels...)
		for _, matcher := range selector.LabelMatchers {
			if !slices.Contains(scraped, matcher.Name) && !slices.Contains(m.Labels, matcher.Name) {
				t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
			}
			if matcher.Name == telemetry.LabelOutcome && len(m.Outcomes) > 0 {
				for _, outcome := range strings.Split(matcher.Value, "|") {
					if !slices.Contains(m.Outcomes, outcome) {
						t.Errorf("%s: %s never has the outcome %q", where, selector.Name, outcome)
					}
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var by []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			by = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = n.VectorMatching.MatchingLabels
			}
		}
		for _, label := range by {
			if !slices.Contains(may, label) {
				t.Errorf("%s: no metric in it has the label %s", where, label)
			}
		}
		return nil
	})
	return names
}

// TestRulesNameWhatIsExported also holds that what a message names is a label that its alert has.
func TestRulesNameWhatIsExported(t *testing.T) {
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, a := range alerts(t) {
		if len(checkExpr(t, a.Alert, a.Expr)) == 0 {
			t.Errorf("%s names no metric", a.Alert)
		}
		for _, m := range label.FindAllStringSubmatch(a.Annotations["summary"]+a.Annotations["description"], -1) {
			if !strings.Contains(a.Expr, m[1]) && !strings.HasPrefix(a.Expr, "up{") {
				t.Errorf("%s: its message names the label %s, which it lacks", a.Alert, m[1])
			}
		}
	}
}

// TestCheckSeesWhatIsWrong tests the check itself.
func TestCheckSeesWhatIsWrong(t *testing.T) {
	for _, expr := range []string{
		`aerie_no_such_metric > 0`, `sum by (build) (aerie_build_running)`, `aerie_tasks_total{outcome="fine"}`, `aerie_ready{corpus="x"}`, `rate(`,
	} {
		if !failsIn(func(t *testing.T) { checkExpr(t, "test", expr) }) {
			t.Errorf("%s passes", expr)
		}
	}
}

// failsIn tells whether a check reports something, without failing the test that asks.
func failsIn(check func(*testing.T)) bool {
	inner := &testing.T{}
	done := make(chan bool)
	go func() {
		defer func() { done <- inner.Failed() }()
		check(inner)
	}()
	return <-done
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  *struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
	Panels      []panel
}

// TestDashboard holds that the dashboard asks for what is exported, and that its panels don't lie on each other.
func TestDashboard(t *testing.T) {
	source := string(read(t, "../grafana/aerie.json"))
	if source != string(read(t, chartDir+"/dashboards/aerie.json")) {
		t.Error("the chart has another dashboard: cp deploy/grafana/aerie.json deploy/helm/aerie/dashboards/")
	}
	var d struct {
		UID, Title string
		Panels     []panel
		Templating struct {
			List []struct {
				Name, Type string
				Query      json.RawMessage
			}
		}
		Annotations struct{ List []struct{ Name, Expr string } }
	}
	if err := json.Unmarshal([]byte(source), &d); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$corpus", ".*")
	seen := map[string]bool{}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%s lies on %s, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: no query, or a data source that exists only where it was made", p.Title)
		}
		for _, q := range p.Targets {
			expr := variables.Replace(q.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("%s: unknown variable in %s", p.Title, q.Expr)
			}
			for _, name := range checkExpr(t, p.Title, expr) {
				seen[name] = true
			}
		}
	}
	for _, a := range d.Annotations.List {
		checkExpr(t, a.Name, variables.Replace(a.Expr))
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`label_values\((\w+)`).FindStringSubmatch(string(v.Query)); v.Type == "query" && m != nil {
			checkExpr(t, "variable "+v.Name, m[1])
		} else if v.Type == "query" {
			t.Errorf("variable %s: %s", v.Name, v.Query)
		}
	}
	if len(seen) < 30 {
		t.Errorf("the dashboard shows %d metrics: %v", len(seen), seen)
	}
	chart := one[*corev1.ConfigMap](t, objects(t, values(t, "everything")), "night-nest-dashboard")
	if diff := cmp.Diff(strings.TrimSpace(source), strings.TrimSpace(chart.Data["aerie.json"])); diff != "" || chart.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v, (-want +got)\n%s", chart.Labels, diff)
	}
	if len(fmt.Sprint(chart.Data)) > 1<<20-1<<16 {
		t.Error("the dashboard is too large for a ConfigMap")
	}
}

// TestAutoscalingNamesWhatIsExported holds the metric of the HorizontalPodAutoscaler.
func TestAutoscalingNamesWhatIsExported(t *testing.T) {
	text := strings.Join(manifests(t, values(t, "hpa")), "\n")
	for _, name := range regexp.MustCompile(`aerie_\w+`).FindAllString(text, -1) {
		checkExpr(t, "hpa", name)
	}
	if !strings.Contains(text, telemetry.BusySlots) {
		t.Error("no metric to scale by")
	}
}
