package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/aerie-rag/aerie/internal/config"
)

const secretsDir = "/etc/aerie/secrets/"

// load loads the aerie.yaml that a set of values gives, with its secrets in a folder of the test.
func load(t *testing.T, values map[string]any) (*config.Config, map[string]bool) {
	t.Helper()
	folder := t.TempDir()
	files := map[string]bool{}
	for _, o := range all[*appsv1.Deployment](objects(t, values)) {
		for _, v := range o.Spec.Template.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for _, source := range v.Projected.Sources {
				for _, item := range source.Secret.Items {
					files[item.Path] = true
				}
			}
		}
	}
	for name := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("the secret of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	maps := slices.DeleteFunc(all[*corev1.ConfigMap](objects(t, values)), func(m *corev1.ConfigMap) bool { return m.Data["aerie.yaml"] == "" })
	text := strings.ReplaceAll(maps[0].Data["aerie.yaml"], secretsDir, folder+"/")
	path := filepath.Join(folder, "aerie.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(config.Options{File: path})
	if err == nil {
		err = cfg.Fleet()
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return cfg, files
}

// TestConfigLoads holds that both programs take the aerie.yaml of every set of values, and find in it what was meant.
func TestConfigLoads(t *testing.T) {
	for _, set := range valueSets {
		t.Run(set, func(t *testing.T) {
			cfg, files := load(t, values(t, set))
			got := cfg.Map()
			for key, want := range map[string]string{
				"server.listen": "0.0.0.0:7744", "worker.listen": "0.0.0.0:7745",
			} {
				if got[key] != want {
					t.Errorf("%s is %s, want %s", key, got[key], want)
				}
			}
			for key := range files {
				if !strings.HasSuffix(got[key], "/"+key) {
					t.Errorf("%s is %q, which isn't where the secret is mounted", key, got[key])
				}
			}
			for key, want := range flatten(values(t, set)["config"].(map[string]any), "") {
				if got[key] != want {
					t.Errorf("%s is %s, want %s", key, got[key], want)
				}
			}
		})
	}
}

// flatten writes the plain values of nested maps, by their path, as the configuration does.
func flatten(m map[string]any, prefix string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			if prefix+k != "summaries.extra" && prefix+k != "embeddings.extra" && prefix+k != "build.prices" && prefix+k != "prices" {
				maps.Copy(out, flatten(v, prefix+k+"."))
			}
		case string:
			out[prefix+k] = v
		case bool, float64:
			b, _ := json.Marshal(v)
			out[prefix+k] = string(b)
		}
	}
	delete(out, "clustering.memory_limit") // written with another unit
	for _, key := range []string{"worker.grace", "summaries.timeout", "embeddings.timeout", "queue.ack_wait", "server.lease"} {
		delete(out, key)
	}
	return out
}

// schemaKeys returns the keys of aerie.yaml that the schema of the values knows under config, and those of secrets.
func schemaKeys(t *testing.T) (keys, secrets []string) {
	t.Helper()
	type node struct {
		Properties    map[string]json.RawMessage `json:"properties"`
		PropertyNames struct{ Enum []string }    `json:"propertyNames"`
		Additional    *json.RawMessage           `json:"additionalProperties"`
	}
	decode := func(b []byte) (n node) {
		t.Helper()
		if err := json.Unmarshal(b, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	root := decode(read(t, chartDir+"/values.schema.json"))
	var walk func(n node, prefix string)
	walk = func(n node, prefix string) {
		if n.Additional == nil || string(*n.Additional) != "false" {
			t.Errorf("config.%s takes any key", prefix)
		}
		for name, raw := range n.Properties {
			if child := decode(raw); child.Properties != nil && child.Additional != nil {
				walk(child, prefix+name+".")
			} else {
				keys = append(keys, prefix+name)
			}
		}
	}
	walk(decode(root.Properties["config"]), "")
	secrets = decode(root.Properties["secrets"]).PropertyNames.Enum
	slices.Sort(keys)
	slices.Sort(secrets)
	return keys, secrets
}

// TestSchemaKnowsEveryKey holds that the schema has exactly the keys of aerie.yaml, and takes secrets for exactly those
// that name files.
func TestSchemaKnowsEveryKey(t *testing.T) {
	var want, wantSecrets []string
	for _, k := range config.Keys() {
		want = append(want, k.Name)
		if (strings.HasSuffix(k.Name, "_file") || strings.HasPrefix(k.Name, "server.tls_")) && k.Name != "server.ca_file" { // that one is for clients
			wantSecrets = append(wantSecrets, k.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(wantSecrets)
	keys, secrets := schemaKeys(t)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys under config in deploy/helm/aerie/values.schema.json (-those of internal/config +got)\n%s", diff)
	}
	if diff := cmp.Diff(wantSecrets, secrets); diff != "" {
		t.Errorf("propertyNames of secrets in deploy/helm/aerie/values.schema.json (-those of internal/config +got)\n%s", diff)
	}
}

// TestEverythingSetsEverything holds that the set of values called everything leaves out no key, so that the tests
// above see all of them.
func TestEverythingSetsEverything(t *testing.T) {
	v := values(t, "everything")
	set := map[string]bool{}
	var walk func(m map[string]any, prefix string)
	walk = func(m map[string]any, prefix string) {
		for k, child := range m {
			set[prefix+k] = true
			if m, ok := child.(map[string]any); ok {
				walk(m, prefix+k+".")
			}
		}
	}
	walk(v["config"].(map[string]any), "")
	for key := range v["secrets"].(map[string]any) {
		set[key] = true
	}
	never := []string{"server.listen", "server.url", "server.ca_file", "server.audit_log", "worker.listen", "queue.nkey_file", "readers"}
	for _, k := range config.Keys() {
		if !set[k.Name] && !k.Secret && !slices.Contains(never, k.Name) {
			t.Errorf("%s isn't set in testdata/everything.yaml", k.Name)
		}
	}
}

// environment returns every name of a variable that a text mentions.
func environment(text string) []string {
	var names []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !(r == '_' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') }) {
		if strings.HasPrefix(word, "AERIE_") && len(word) > len("AERIE_") && !slices.Contains(names, word) {
			names = append(names, word)
		}
	}
	return names
}

// notVariables are names in capital letters that are something else: streams and buckets on NATS.
var notVariables = []string{"AERIE_TASKS", "AERIE_DEAD", "AERIE_PLANS", "AERIE_JOURNAL", "AERIE_ATTEMPTS"}

// TestVariablesAreKeys holds that every variable AERIE_… that anything in deploy/ or the operations manual names is a
// setting that the programs know.
func TestVariablesAreKeys(t *testing.T) {
	known := map[string]bool{"AERIE_CONFIG": true, "AERIE_HOME": true}
	for _, k := range config.Keys() {
		known[k.Env()] = true
	}
	files := []string{"../../docs/operations.md"}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".go") && !strings.HasPrefix(path, "../test/") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range files {
		for _, name := range environment(string(read(t, path))) {
			seen++
			if !known[name] && !slices.Contains(notVariables, name) {
				t.Errorf("%s names %s, which is no setting", path, name)
			}
		}
	}
	if seen < 4 {
		t.Errorf("%d variables in %d files: the search is wrong", seen, len(files))
	}
}
