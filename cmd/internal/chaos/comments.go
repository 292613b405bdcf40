package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goComments writes the package comments of the Go distribution to a folder, a file for each package, and returns it.
func (t *test) goComments(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	dir := filepath.Join(t.folder, "comments")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	err = filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "vendor"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || file.Doc == nil || len(file.Doc.Text()) < 1000 {
			return nil // short ones say little
		}
		rel, err := filepath.Rel(src, filepath.Dir(path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(rel), "/", "-")+".txt"), []byte(file.Doc.Text()), 0o644)
	})
	return dir, err
}
