package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aerie-rag/aerie/internal/sqlite"
)

// nobody runs the program as a user without rights: as it is, unless the test runs as root, whom no folder keeps out.
func nobody(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.Command("./aerie", args...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestA19ReadOnlyHome: what only reads works on a home that can't be written to; what writes says so.
func TestA19ReadOnlyHome(t *testing.T) {
	fixtures := fresh(t)
	copied, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("aerie", copied, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("new.md", []byte("Something new."), 0o644); err != nil {
		t.Fatal(err)
	}
	aerie(t, "ingest", filepath.Join(fixtures, "pep-0202.rst"), filepath.Join(fixtures, "pep-0274.rst")).want(t, exitDone)
	aerie(t, "build").want(t, exitDone)
	lock := func(dir, file fs.FileMode) {
		t.Helper()
		err := filepath.WalkDir(".aerie", func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				return os.Chmod(path, dir)
			}
			return os.Chmod(path, file)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	lock(0o555, 0o444)
	t.Cleanup(func() { lock(0o755, 0o644) }) // so that it can be removed
	for dir := "."; ; dir = filepath.Dir(dir) {
		if dir, _ = filepath.Abs(dir); dir == os.TempDir() || dir == "/" {
			break
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			break
		}
	}
	for _, args := range [][]string{{"status"}, {"query", "list comprehension"}, {"ask", "list comprehension"}, {"tree", "--output", "jsonl"}, {"plan"}} {
		if r := nobody(t, args...); r.code != exitDone || r.stdout == "" {
			t.Errorf("%q: exit %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	for _, args := range [][]string{{"ingest", "new.md"}, {"build", "--force"}, {"gc"}, {"repair"}, {"retry", "--failed"}, {"delete", "--all", "--yes"}} {
		r := nobody(t, args...)
		if r.code != exitFailed || !strings.Contains(r.stderr, "read-only") || !strings.Contains(r.stderr, "--home") {
			t.Errorf("%q: exit %d, %s", args, r.code, r.stderr)
		}
	}
}

// TestA25Private: nobody else can read a home, also one that an older version made.
func TestA25Private(t *testing.T) {
	fixtures := fresh(t)
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
	if err := os.Mkdir("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{"new/home", "empty"} {
		aerie(t, "--home", home, "ingest", filepath.Join(fixtures, "pep-0202.rst")).want(t, exitDone)
		aerie(t, "--home", home, "build", "--force").want(t, exitDone)
		err := filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 && (entry.IsDir() && path == home || strings.HasPrefix(entry.Name(), sqlite.FileName) || filepath.Dir(path) == home) {
				t.Errorf("%s has %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join("empty", sqlite.FileName)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	aerie(t, "--home", "empty", "status").want(t, exitDone)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	aerie(t, "init").want(t, exitDone)
	if info, err := os.Stat("aerie.yaml"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file that may get keys: %v, %v", info.Mode(), err)
	}
}
