package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile reads the Dockerfile with BuildKit's own parser, and holds what the image is.
func TestDockerfile(t *testing.T) {
	parsed, err := parser.Parse(bytes.NewReader(read(t, "../Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%s", w.Short)
	}
	warn := func(rule, _, _, message string, _ []parser.Range) { t.Errorf("%s: %s", rule, message) }
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: warn}))
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages", len(stages))
	}
	build, final := stages[0], stages[1]
	if !strings.HasPrefix(build.BaseName, "golang:1.26") || final.BaseName != "gcr.io/distroless/static-debian12:nonroot" {
		t.Errorf("from %s and %s", build.BaseName, final.BaseName)
	}
	var copied []string
	user := ""
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.RunCommand:
			t.Errorf("the image has no shell to run %v", c.CmdLine)
		case *instructions.CopyCommand:
			if c.From != "build" {
				t.Errorf("it copies from %q", c.From)
			}
			for _, path := range c.SourcePaths {
				copied = append(copied, filepath.Join(c.DestPath, filepath.Base(path)))
			}
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell || !slices.Contains(copied, c.CmdLine[0]) {
				t.Errorf("it runs %v, and has %v", c.CmdLine, copied)
			}
		}
	}
	if user != "65532:65532" {
		t.Errorf("user %q", user)
	}
	// What the chart and compose start is there.
	for _, d := range manifests(t, values(t, "minimal")) {
		for _, m := range regexp.MustCompile(`/usr/local/bin/\w+`).FindAllString(d, -1) {
			if !slices.Contains(copied, m) {
				t.Errorf("the chart runs %s, and the image has %v", m, copied)
			}
		}
	}
	for name, s := range compose(t).Services {
		if len(s.Entrypoint) > 0 && !slices.Contains(copied, s.Entrypoint[0]) {
			t.Errorf("compose runs %v for %s, and the image has %v", s.Entrypoint, name, copied)
		}
	}
}

// TestBuildContext holds that .dockerignore leaves every file that the programs are compiled of.
func TestBuildContext(t *testing.T) {
	var rules []string
	for line := range strings.Lines(string(read(t, "../Dockerfile.dockerignore"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			rules = append(rules, line)
		}
	}
	if rules[0] != "*" {
		t.Error("the context isn't closed: its first rule must be *")
	}
	// left tells whether the last rule that matches a path or a folder above it lets it through.
	left := func(path string) bool {
		ok := true
		for _, rule := range rules {
			pattern, keep := strings.CutPrefix(rule, "!")
			anywhere, deep := strings.CutPrefix(pattern, "**/")
			parts := strings.Split(path, "/")
			for i := range parts {
				name := strings.Join(parts[:i+1], "/")
				if deep {
					name = parts[i]
				}
				if hit, err := filepath.Match(map[bool]string{true: anywhere, false: pattern}[deep], name); err != nil {
					t.Fatal(err)
				} else if hit {
					ok = keep
				}
			}
		}
		return ok
	}
	for path, want := range map[string]bool{"go.mod": true, "cmd/aerie/main.go": true, "cmd/aerie/main_test.go": false, ".git/config": false, "docs/a.md": false, "internal/npy/testdata/a": false, "deploy/compose/token": false} {
		if left(path) != want {
			t.Errorf("%s is in the context: %v", path, !want)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Module,GoFiles,SFiles,HFiles,EmbedFiles", "./cmd/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			Dir                                 string
			Module                              *struct{ Main bool }
			GoFiles, SFiles, HFiles, EmbedFiles []string
		}
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, f := range slices.Concat(p.GoFiles, p.SFiles, p.HFiles, p.EmbedFiles) {
			path, err := filepath.Rel(root, filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if files++; !left(filepath.ToSlash(path)) {
				t.Errorf("%s is needed and left out", path)
			}
		}
	}
	if files < 100 {
		t.Errorf("%d files: the list is wrong", files)
	}
}

// TestLicenses: every module that the programs are made of has its licence text in the image.
func TestLicenses(t *testing.T) {
	out := t.TempDir()
	cmd := exec.Command("deploy/licenses.sh", out)
	cmd.Dir = "../.."
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	texts, err := filepath.Glob(filepath.Join(out, "github.com", "*", "*", "LICENSE*"))
	if err != nil || len(texts) < 10 {
		t.Errorf("%d texts, %v", len(texts), err)
	}
	for _, name := range []string{"LICENSE", "GO-LICENSE"} {
		if len(read(t, filepath.Join(out, name))) < 500 {
			t.Errorf("%s is no licence", name)
		}
	}
}

// TestA22Images: no image is one that was left open, and Redis is of a version in which CVE-2025-49844 is mended.
func TestA22Images(t *testing.T) {
	for name, s := range compose(t, "observe").Services {
		if name == "coordinator" || name == "worker" {
			continue // built here
		}
		_, tag, ok := strings.Cut(s.Image, ":")
		if !ok || strings.Contains(tag, "latest") || strings.Count(tag, ".") < 2 {
			t.Errorf("%s: %s is no exact version", name, s.Image)
		}
		if name == "redis" {
			var major, minor, patch int
			if _, err := fmt.Sscanf(tag, "%d.%d.%d", &major, &minor, &patch); err != nil || major < 7 || major == 7 && (minor < 4 || minor == 4 && patch < 6) || major == 8 && minor < 2 {
				t.Errorf("%s: %v", s.Image, err)
			}
		}
	}
}
