package corpus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// walk calls add with the files under a folder, sorted. A folder or file that can't be looked at is a problem of its own. The folder
// may be a link: it was named. Links in it are followed to files within it, and no further.
func walk(ctx context.Context, root string, opts Options, add func(file) error) error {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return fmt.Errorf("corpus: %w", err)
	}
	if real, err = filepath.Abs(real); err != nil {
		return fmt.Errorf("corpus: %w", err)
	}
	w := &walker{ctx: ctx, root: root, real: real, opts: opts, add: add}
	if err := w.begin(); err != nil {
		return err
	}
	return filepath.WalkDir(real, w.visit)
}

// walker walks one folder.
type walker struct {
	ctx  context.Context // of the one call of walk that it lives for
	root string          // as it was named
	real string          // without links
	opts Options
	add  func(file) error

	top      string // what patterns are relative to: the repository that holds the folder, or the folder
	patterns []gitignore.Pattern
	taken    gitignore.Matcher // by Options.Include; nil for none
	left     gitignore.Matcher // by Options.Exclude; nil for none
}

// ignoreFiles name what isn't taken; the later ones in the same folder win.
var ignoreFiles = []string{".gitignore", ".aerieignore"}

// packages are folders of what others wrote, which no one means who names the folder around them.
var packages = []string{"node_modules", "__pycache__"}

// begin reads the ignore files above the folder, up to the top of its repository.
func (w *walker) begin() error {
	w.top = w.real
	for dir := w.real; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			w.top = dir
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	var above []string
	for dir := w.real; dir != w.top; {
		dir = filepath.Dir(dir)
		above = append(above, dir)
	}
	for _, dir := range slices.Backward(above) {
		w.ignores(dir)
	}
	for _, m := range []struct {
		patterns []string
		into     *gitignore.Matcher
	}{{w.opts.Include, &w.taken}, {w.opts.Exclude, &w.left}} {
		if len(m.patterns) > 0 {
			var all []gitignore.Pattern
			for _, p := range m.patterns {
				all = append(all, gitignore.ParsePattern(p, w.parts(w.real)))
			}
			*m.into = gitignore.NewMatcher(all)
		}
	}
	return nil
}

// parts are the names on the way from the top down to a path.
func (w *walker) parts(path string) []string {
	rel, err := filepath.Rel(w.top, path)
	if err != nil || rel == "." {
		return nil
	}
	return strings.Split(filepath.ToSlash(rel), "/")
}

// ignores reads the ignore files of a folder. One that can't be read names nothing.
func (w *walker) ignores(dir string) {
	for _, name := range ignoreFiles {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if line := strings.TrimRight(lines.Text(), "\r"); line != "" && !strings.HasPrefix(line, "#") {
				w.patterns = append(w.patterns, gitignore.ParsePattern(line, w.parts(dir)))
			}
		}
		f.Close()
	}
}

// passed returns why a file or folder is left out, "" if it isn't. Folders are asked before what is in them.
func (w *walker) passed(at string, dir bool) string {
	parts := w.parts(at)
	switch {
	case w.left != nil && w.left.Match(parts, dir):
		return SkipExcluded
	case w.taken != nil && !dir && w.taken.Match(parts, false):
		return ""
	case dir && slices.Contains(packages, filepath.Base(at)):
		return SkipPackages
	case w.taken == nil && gitignore.NewMatcher(w.patterns).Match(parts, dir), w.taken != nil && !dir && gitignore.NewMatcher(w.patterns).Match(parts, false):
		return SkipIgnored
	}
	return ""
}

func (w *walker) visit(at string, entry fs.DirEntry, err error) error {
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	rel, relErr := filepath.Rel(w.real, at)
	if relErr != nil {
		return fmt.Errorf("corpus: %w", relErr)
	}
	path := filepath.Join(w.root, rel)
	if err != nil {
		w.opts.Problem(Problem{Source: path, Error: cause(err)})
		if entry != nil && entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if at == w.real {
		w.ignores(at)
		return nil
	}
	included := w.taken != nil && !entry.IsDir() && w.taken.Match(w.parts(at), false)
	if strings.HasPrefix(entry.Name(), ".") && !included {
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if reason := w.passed(at, entry.IsDir()); reason != "" {
		w.opts.skip(path, reason)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	switch mode := entry.Type(); {
	case entry.IsDir():
		w.ignores(at)
		return nil
	case mode&fs.ModeSymlink != 0:
		target, reason, err := follow(w.real, at)
		if err != nil {
			w.opts.Problem(Problem{Source: path, Error: cause(err)})
			return nil
		}
		if reason != "" {
			w.opts.skip(path, reason)
			return nil
		}
		rel = target
	case !mode.IsRegular():
		w.opts.skip(path, SkipSpecial)
		return nil
	}
	err = w.add(file{path: path, within: w.real, rel: rel, included: included})
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) { // an error of the caller's, not a wish of the walk
		return fmt.Errorf("corpus: %w", err)
	}
	return err
}
