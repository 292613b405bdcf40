// Package deploy_test holds that what lies in deploy/ can be deployed: the chart renders to manifests that Kubernetes
// takes, its aerie.yaml loads, what can't work is refused, the alerts do what they say, and every metric and setting
// that is named exists.
package deploy_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	chartDir    = "../helm/aerie"
	releaseName = "night"
	namespace   = "search"
)

// valueSets are the values that all manifests are checked with.
var valueSets = []string{"minimal", "keda", "hpa", "everything", "off"}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func values(t *testing.T, set string) map[string]any {
	t.Helper()
	return parse(t, string(read(t, filepath.Join("testdata", set+".yaml"))))
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// render returns the manifests by template, as `helm template` makes them: the schema is obeyed.
func render(values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: releaseName, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{}.RenderWithContext(context.Background(), chart, all)
}

// manifests returns each manifest that a set of values gives, as YAML, in order.
func manifests(t *testing.T, values map[string]any) []string {
	t.Helper()
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".tpl") {
			continue
		}
		for _, text := range strings.Split(files[name], "\n---") {
			if strings.ContainsFunc(strip(text), func(r rune) bool { return r > ' ' }) {
				list = append(list, text)
			}
		}
	}
	return list
}

// strip takes away comments of whole lines.
func strip(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestLint(t *testing.T) {
	for _, set := range valueSets {
		t.Run(set, func(t *testing.T) {
			result := lint.RunAll(chartDir, values(t, set), namespace)
			for _, m := range result.Messages {
				if strings.Contains(m.Error(), "icon is recommended") {
					continue
				}
				t.Error(m)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	for set, want := range map[string][]string{
		"minimal":    {"2 workers with 8 slots each: up to 16 summaries", "get secret aerie", "No schedule is set", "extractive", "No alerts"},
		"keda":       {"0 to 40 workers by KEDA with 16 slots each: up to 640", `at "30 1 * * mon-fri" (Europe/Berlin)`},
		"hpa":        {"3 to 12 workers by their busy slots"},
		"everything": {"2 to 60 workers by KEDA", "service/night-nest-coordinator 7744:80"},
		"off":        {"deployment/eyrie-worker", "No network policy"},
	} {
		files, err := render(values(t, set))
		if err != nil {
			t.Fatal(err)
		}
		notes := files["aerie/templates/NOTES.txt"]
		for _, w := range want {
			if !strings.Contains(notes, w) {
				t.Errorf("%s: no %q in\n%s", set, w, notes)
			}
		}
		if set == "everything" && (strings.Contains(notes, "extractive") || strings.Contains(notes, "No alerts")) {
			t.Errorf("%s:\n%s", set, notes)
		}
	}
}
