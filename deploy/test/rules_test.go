package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

const (
	rulesPath     = chartDir + "/rules/aerie.yaml"
	rulesTestPath = chartDir + "/rules/rules_test.yaml"
	operations    = "../../docs/operations.md"
)

func alerts(t *testing.T) []alertRule {
	t.Helper()
	var f ruleFile
	if err := yaml.UnmarshalStrict(read(t, rulesPath), &f); err != nil {
		t.Fatal(err)
	}
	return f.alerts()
}

// promtool runs Prometheus's own checker, of the version in go.mod.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "promtool"}, args...)...)
	// Without the discovery of every cloud, which is most of its weight.
	cmd.Env = append(os.Environ(), "GOFLAGS=-tags=remove_all_sd "+os.Getenv("GOFLAGS"), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestPromtool checks the rules, and runs their tests.
func TestPromtool(t *testing.T) {
	if out := promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesPath); !strings.Contains(out, "rules found") {
		t.Errorf("no rules:\n%s", out)
	}
	if out := promtool(t, "test", "rules", rulesTestPath); !strings.Contains(out, "SUCCESS") {
		t.Errorf("no tests:\n%s", out)
	}
	// What the chart makes of them is well formed too.
	_, b := renderedRules(t)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", path)
}

// TestRulesCompose checks what Prometheus is given where there is no Kubernetes.
func TestPromtoolChecksCompose(t *testing.T) {
	folder := t.TempDir()
	text := strings.ReplaceAll(string(read(t, "../compose/prometheus.yaml")), "/etc/prometheus/rules/aerie.yaml", filepath.Join(folder, "aerie.yaml"))
	for name, b := range map[string][]byte{"prometheus.yaml": []byte(text), "aerie.yaml": read(t, rulesPath)} {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := promtool(t, "check", "config", filepath.Join(folder, "prometheus.yaml")); !strings.Contains(out, "1 rule files found") {
		t.Errorf("no rules:\n%s", out)
	}
}

// TestEveryAlertIsTested holds that the tests of the rules see each alert fire and see it quiet.
func TestEveryAlertIsTested(t *testing.T) {
	var f struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string `json:"alertname"`
				ExpAlerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(read(t, rulesTestPath), &f); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range f.Tests {
		for _, c := range test.AlertRuleTest {
			if len(c.ExpAlerts) > 0 {
				fires[c.Alertname] = true
			} else {
				quiet[c.Alertname] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !quiet[a.Alert] {
			t.Errorf("%s: fires in a test: %v, is quiet in one: %v", a.Alert, fires[a.Alert], quiet[a.Alert])
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// TestEveryAlertHasARunbook holds that an alert's link leads to a heading of the operations manual that says what to run,
// and that the manual has no alert that doesn't exist.
func TestEveryAlertHasARunbook(t *testing.T) {
	text := string(read(t, operations))
	sections := map[string]string{} // by anchor
	found := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		title := text[at[2]:at[3]]
		anchor := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(title), "")
		sections[strings.ReplaceAll(anchor, " ", "-")] = text[at[1]:end]
	}
	known := map[string]bool{}
	for _, a := range alerts(t) {
		known[strings.ToLower(a.Alert)] = true
		page, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		if page != "https://github.com/aerie-rag/aerie/blob/main/docs/operations.md" || anchor != strings.ToLower(a.Alert) {
			t.Errorf("%s: runbook_url is %s", a.Alert, a.Annotations["runbook_url"])
		}
		section, ok := sections[anchor]
		if !ok {
			t.Errorf("docs/operations.md has no heading %s", a.Alert)
		} else if !strings.Contains(section, "```") {
			t.Errorf("docs/operations.md, %s: it names no command", a.Alert)
		}
		if a.Labels["severity"] != "warning" && a.Labels["severity"] != "critical" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: labels %v, annotations %v", a.Alert, a.Labels, a.Annotations)
		}
	}
	for anchor := range sections {
		if strings.HasPrefix(anchor, "aerie") && !strings.Contains(anchor, "-") && !known[anchor] {
			t.Errorf("docs/operations.md has the heading %s, which is no alert", anchor)
		}
	}
	// Links within the manual lead somewhere.
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		if _, ok := sections[m[1]]; !ok {
			t.Errorf("docs/operations.md links to #%s, which isn't there", m[1])
		}
	}
}

// renderedRules returns the labels of the PrometheusRule that the values called everything give, and its rules as
// Prometheus gets them.
func renderedRules(t *testing.T) (labels map[string]string, rules []byte) {
	t.Helper()
	rule := one[*monitoringv1.PrometheusRule](t, objects(t, values(t, "everything")), "night-nest")
	b, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return rule.Labels, b
}

// TestRuleValues holds what the values change of the alerts.
func TestRuleValues(t *testing.T) {
	source := alerts(t)
	labels, b := renderedRules(t)
	if labels["release"] != "prometheus" {
		t.Errorf("labels %v", labels)
	}
	var got ruleFile
	if err := yaml.UnmarshalStrict(b, &got); err != nil {
		t.Fatal(err)
	}
	rendered := got.alerts()
	if len(rendered) != len(source)-1 || slices.ContainsFunc(rendered, func(a alertRule) bool { return a.Alert == "AerieBuildOverdue" }) {
		t.Errorf("%d alerts of %d; AerieBuildOverdue is disabled", len(rendered), len(source))
	}
	for _, a := range rendered {
		i := slices.IndexFunc(source, func(s alertRule) bool { return s.Alert == a.Alert })
		want := source[i]
		want.Labels = map[string]string{"severity": want.Labels["severity"], "team": "search"}
		want.Annotations["runbook_url"] = "https://wiki.example/aerie#" + strings.ToLower(a.Alert)
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("%s (-want +got)\n%s", a.Alert, diff)
		}
	}
}
