package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/aerie-rag/aerie/internal/config"
)

const composeDir = "../compose"

// compose loads compose.yaml as `docker compose` does: against the schema, with every reference resolved.
func compose(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(composeDir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(path),
		ConfigFiles: []types.ConfigFile{{Filename: path}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.Profiles = profiles })
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	got := compose(t).ServiceNames()
	if diff := cmp.Diff([]string{"coordinator", "nats", "redis", "weaviate", "worker"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p := compose(t, "observe")
	if len(p.Services) != 7 {
		t.Errorf("with the profile observe: %v", p.ServiceNames())
	}
	pinned := regexp.MustCompile(`^[a-z./-]+:v?[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?$`)
	for name, s := range p.Services {
		ours := name == "coordinator" || name == "worker"
		if !ours && !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %s has no whole version", name, s.Image)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: the port %s is open to other machines", name, port.Published)
			}
		}
		if s.Restart != "unless-stopped" || s.Privileged {
			t.Errorf("%s: restart %q, privileged %v", name, s.Restart, s.Privileged)
		}
		if ours && (!s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.User != "65532:65532" || len(s.Tmpfs) != 1) {
			t.Errorf("%s: it may do more than it must: %+v", name, s)
		}
		for _, c := range s.Configs {
			if _, err := os.Stat(p.Configs[c.Source].File); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n := p.Services["worker"].Deploy.Replicas; n == nil || *n != 2 {
		t.Errorf("%v workers", n)
	}
	if got := p.Services["coordinator"].Build; got == nil || got.Dockerfile != "deploy/Dockerfile" {
		t.Errorf("the image is built of %+v", got)
	}
	for server, volume := range map[string]string{"nats": "/data", "redis": "/data", "weaviate": "/var/lib/weaviate"} {
		if v := p.Services[server].Volumes; len(v) == 0 || v[0].Type != "volume" || v[0].Target != volume || p.Services[server].HealthCheck == nil {
			t.Errorf("%s: volumes %v, health %v", server, v, p.Services[server].HealthCheck)
		}
	}
	if got := strings.Join(p.Services["redis"].Command, " "); !strings.Contains(got, "--maxmemory-policy noeviction") || !strings.Contains(got, "--appendonly yes") {
		t.Errorf("redis: %s", got)
	}
}

// TestComposeConfigLoads holds that each program takes its settings, from the file and from its variables.
func TestComposeConfigLoads(t *testing.T) {
	p := compose(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"coordinator", "worker"} {
		var env []string
		for k, v := range p.Services[name].Environment {
			env = append(env, k+"="+strings.ReplaceAll(*v, "/run/secrets/token", token))
		}
		cfg, _, err := config.Load(config.Options{File: filepath.Join(composeDir, "aerie.yaml"), Env: env})
		if err == nil {
			err = cfg.Fleet()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if cfg.Server.Listen != "0.0.0.0:7744" && name == "coordinator" || cfg.Worker.Listen != "0.0.0.0:7745" && name == "worker" {
			t.Errorf("%s listens at %s, %s", name, cfg.Server.Listen, cfg.Worker.Listen)
		}
		stop := p.Services["worker"].StopGracePeriod
		if stop == nil || cfg.Worker.Grace.Seconds()+10 > float64(*stop)/1e9 {
			t.Errorf("worker.grace is %v, and the worker is killed after %v", cfg.Worker.Grace, stop)
		}
	}
}
