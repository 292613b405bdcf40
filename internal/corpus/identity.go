package corpus

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// File is what is known of a file before it is read.
type File struct {
	// Name is the file as it was named or found.
	Name string
	// ID is that of its document, and what the ids of its parts begin with.
	ID string
	// Source is what the document belongs to: a name that was given, or the folder or file that was named, with its machine if that
	// matters. Path is where the file is, without links but in a folder that was
	// named, whose links are files of their own.
	Source, Path string
}

// Named reports whether a source is a name that was given, and no path.
func Named(source string) bool { return source != "" && !path.IsAbs(onHost(source)) }

// onHost returns a path without the machine that it is on.
func onHost(at string) string {
	if host, rest, ok := strings.Cut(at, ":"); ok && !strings.Contains(host, "/") && path.IsAbs(rest) {
		return rest
	}
	return at
}

// LocalPath returns where a file is on the machine of a name; ok is false if it is on another one.
func LocalPath(host, at string) (local string, ok bool) {
	rest, ok := at, true
	if host != "" {
		rest, ok = strings.CutPrefix(at, host+":")
	}
	return filepath.FromSlash(rest), ok && path.IsAbs(rest)
}

// longestSource is how many bytes the name of a source may have.
const longestSource = 200

// checkSource reports why a text can't be the name of a source.
func checkSource(name string) error {
	switch {
	case len(name) > longestSource:
		return fmt.Errorf("--source has %d bytes; it may have %d", len(name), longestSource)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) != name:
		return fmt.Errorf("--source is %q; it must be a name without control characters, and without white space at its ends", name)
	case strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") || strings.Contains(name, ":"):
		return errors.New("--source must be a name, not a path: without / at its ends, and without colons")
	}
	return nil
}

// onThis returns a path with the machine before it, where that matters.
func (o Options) onThis(path string) string {
	path = filepath.ToSlash(path)
	if o.Host == "" {
		return path
	}
	return o.Host + ":" + path
}

// identify finds out where a file is, what it belongs to and which id it has. Under a name that was given, the id is the way down from
// the folder that was named, so that it stays when the folder moves; else it is the way from Options.Base, or the whole path.
func (f *finder) identify(x *file) error {
	abs, err := filepath.Abs(x.path)
	if err != nil {
		return fmt.Errorf("corpus: %w", err)
	}
	real, down := abs, filepath.Base(abs)
	root := x.within
	if x.within == "" {
		if real, err = filepath.EvalSymlinks(abs); err != nil {
			return fmt.Errorf("corpus: %w", err)
		}
		root = real
	} else { // a link in the folder is a file of its own
		if down, err = filepath.Rel(f.root, x.path); err != nil {
			return fmt.Errorf("corpus: %w", err)
		}
		real = filepath.Join(x.within, down)
	}
	x.Name, x.Path, x.Source = x.path, f.opts.onThis(real), f.opts.onThis(root)
	if f.opts.Source == "" {
		x.ID, err = FileID(f.opts.Base, x.path)
		return err
	}
	x.Source, x.ID = f.opts.Source, f.opts.Source+"/"+filepath.ToSlash(down)
	return nil
}

// identify lets the caller look at the files.
func (o Options) identify(files []file) error {
	if o.Identify == nil {
		return nil
	}
	var all []*File
	for i := range files {
		if files[i].path != "-" {
			all = append(all, &files[i].File)
		}
	}
	return o.Identify(all)
}

// underSource returns the id that a row gives its document under the name of a source that was given. Ids made of that of a file have it.
func underSource(source, id, file string) string {
	if !Named(source) || file != "" && (id == file || strings.HasPrefix(id, file+"#")) {
		return id
	}
	return source + "/" + id
}

// renamed returns an id made of that of a file as one made of another.
func renamed(id, file, other string) string {
	if rest, ok := strings.CutPrefix(id, file); ok && (rest == "" || rest[0] == '#') {
		return other + rest
	}
	return id
}
