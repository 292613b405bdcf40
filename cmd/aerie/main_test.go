package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is the program itself, for tests that send it signals.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aerie-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "aerie")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is what one run of the program left.
type result struct {
	code           int
	stdout, stderr string
}

// fresh moves the test to a fresh folder, where ./.aerie and ./aerie.yaml are looked for, and returns the path of the fixtures.
func fresh(t *testing.T) (fixtures string) {
	t.Helper()
	fixtures, err := filepath.Abs("testdata/peps")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, pair := range os.Environ() { // of the machine that the test runs on
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AERIE_") {
			t.Setenv(name, "")
		}
	}
	return fixtures
}

// aerie runs a command line in this process.
func aerie(t *testing.T, args ...string) result { return aerieStdin(t, "", args...) }

func aerieStdin(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// want holds a run to an exit code.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// decode reads stdout as one JSON object.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(r.stdout))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("stdout is not JSON: %v\n%s", err, r.stdout)
	}
	if d.More() {
		t.Fatalf("stdout holds more than one value:\n%s", r.stdout)
	}
	return v
}

// lines reads stdout as JSON, one value a line.
func lines[T any](t *testing.T, r result) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(r.stdout) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, line)
		}
		all = append(all, v)
	}
	return all
}

// fields holds a JSON object to have fields, by path: "documents.added", or "levels[].calls" for each element.
func fields(t *testing.T, v any, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := has(v, strings.Split(path, ".")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func has(v any, path []string) error {
	if len(path) == 0 {
		return nil
	}
	name, list := strings.CutSuffix(path[0], "[]")
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is not an object with %s", v, name)
	}
	value, ok := object[name]
	if !ok {
		return fmt.Errorf("no field %s", name)
	}
	if !list {
		return has(value, path[1:])
	}
	elements, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%s is %v, not a list", name, value)
	}
	for _, e := range elements {
		if err := has(e, path[1:]); err != nil {
			return err
		}
	}
	return nil
}

// interrupted returns a context that a signal has ended.
func interrupted() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errInterrupted)
	return ctx
}
