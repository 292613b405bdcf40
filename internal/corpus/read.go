package corpus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/readers"
)

// Options say how to read.
type Options struct {
	// Base is the directory that ids of files are relative to: a file under it has its path from there as id, with
	// forward slashes, any other its absolute path. Empty means that all have the latter.
	Base string
	// Stdin is what "-" reads, JSONL.
	Stdin io.Reader
	// Problem is told of everything that is left out and shouldn't be; it must not be nil.
	Problem func(Problem)
	// Skip is told of everything that is left out on purpose, with the reason; nil is allowed.
	Skip func(source, reason string)
	// Host, if not empty, is the name of this machine: it stands before the paths of files, which may be those of others elsewhere.
	Host string
	// Identify, if not nil, is given the files before they are read, and may give each another id, and another source.
	Identify func([]*File) error
	// Reading says how files are read.
	Reading
	// Vectors is told by ReadStream that vectors of a width come with the rows, before they do; nil is allowed. Its error ends the
	// reading.
	Vectors func(of string, width int) error
}

// Reading says how files are read. The zero value reads each by its extension, as UTF-8.
type Reading struct {
	// Source is the name of the source that all documents belong to, and what their ids begin with; "": each belongs to the folder or
	// file that was named.
	Source string
	// As is the name of the reader that files are read by that have none by their extension, and those that were named; "" for none.
	As string
	// Encoding is that of texts that don't say theirs; "" is UTF-8.
	Encoding string
	// Include and Exclude are patterns of gitignore for files found in folders: what Include names is taken though its extension is not
	// known or an ignore file names it, what Exclude names is not.
	Include, Exclude []string
	// Cache is a folder for what readers compile once; "" for none.
	Cache string
	// Commands read files by their extension, such as ".pdf": the file on stdin, its text on stdout. They come before the readers.
	Commands map[string]string
}

// file is one file to read.
type file struct {
	File
	path   string         // as named or found
	lines  bool           // JSONL
	reader readers.Reader // of any other
	// within and rel say where a file lies that was found: a folder that was named, and the way down from it, both without links. It
	// is opened so that nothing that is put in its place meanwhile leads out. Empty for one that was named itself.
	within, rel string
	included    bool // by a pattern of the caller's
}

// Read calls yield with every document under the paths, in the order of paths and, in a folder, of names. Files and folders
// whose names start with a dot are passed over. "-" reads JSONL from opts.Stdin. What can't be used goes to opts.Problem and the
// rest goes on.
//
// A path that doesn't exist is an error, before anything is read. An error of yield ends Read and is returned as it is.
func Read(ctx context.Context, paths []string, opts Options, yield func(Document) error) error {
	files, err := find(ctx, paths, opts)
	if err == nil {
		err = opts.identify(files)
	}
	if err != nil {
		return err
	}
	r := reader{ctx: ctx, opts: opts, yield: yield, ids: map[string]place{}}
	for _, f := range files {
		if err := r.file(f); err != nil {
			return err
		}
	}
	return nil
}

// CountRows returns how many rows of JSONL Read would see, good or broken. It reads opts.Stdin to its end if "-" is among the paths.
func CountRows(ctx context.Context, paths []string, opts Options) (int, error) {
	opts.Problem, opts.Skip = func(Problem) {}, nil
	files, err := find(ctx, paths, opts)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, f := range files {
		if !f.lines {
			continue
		}
		src := io.NopCloser(opts.Stdin)
		if f.path != "-" {
			if src, err = f.open(); err != nil {
				continue // Read reports it
			}
		}
		n, err := countRows(ctx, src)
		src.Close()
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// countRows counts the lines of src that aren't blank, up to where it can be read. The error is that of ctx.
func countRows(ctx context.Context, src io.Reader) (int, error) {
	lines := lineReader{r: bufio.NewReaderSize(src, 1<<20)}
	for n := 0; ; {
		data, err := lines.next()
		if err != nil && !errors.Is(err, errLarge) {
			return n, nil
		}
		if err != nil || !isBlank(data) {
			n++
		}
		if lines.line%256 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// FileID returns the document id of a file.
func FileID(base, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("corpus: %w", err)
	}
	if base == "" {
		return filepath.ToSlash(abs), nil
	}
	if base, err = filepath.Abs(base); err != nil {
		return "", fmt.Errorf("corpus: %w", err)
	}
	if rel, err := filepath.Rel(base, abs); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel), nil
	}
	return filepath.ToSlash(abs), nil
}

// find lists the files under the paths.
func find(ctx context.Context, paths []string, opts Options) ([]file, error) {
	f := finder{opts: opts, seen: map[string]bool{}}
	for _, path := range paths {
		if path == "-" {
			f.take(file{File: File{Name: path, Source: f.opts.Source}, path: path, lines: true}, path)
			continue
		}
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("corpus: there is no file or folder %s", path)
		case err != nil:
			return nil, fmt.Errorf("corpus: %w", err)
		case info.IsDir():
			f.root = path
			err = walk(ctx, path, opts, f.add)
		case info.Mode().IsRegular():
			f.root = ""
			err = f.add(file{path: path})
		default:
			return nil, fmt.Errorf("corpus: %s is neither a file nor a folder; to read from a pipe, name -", path)
		}
		if err != nil {
			return nil, err
		}
	}
	return f.files, nil
}

// finder collects files.
type finder struct {
	opts  Options
	files []file
	seen  map[string]bool
	root  string // the folder whose files are added, as it was named; "" for a file that was named itself
}

// add adds a file if there is a reader for it. One that was named and not found in a folder should have one.
func (f *finder) add(x file) error {
	path, named := x.path, x.within == ""
	ok := f.opts.classify(&x, named)
	switch {
	case !ok && named:
		f.opts.Problem(Problem{Source: path, Error: fmt.Sprintf("no reader for %s; --as names one (%s)", describe(path), strings.Join(append(readers.Names(), jsonlName), ", "))})
		return nil
	case !ok:
		f.opts.skip(path, SkipExtension)
		return nil
	}
	if err := f.identify(&x); err != nil {
		return err
	}
	if !utf8.ValidString(x.ID) {
		f.opts.Problem(Problem{Source: strings.ToValidUTF8(path, "\ufffd"), Error: "its name is not UTF-8, and can't be a document id; rename it"})
		return nil
	}
	f.take(x, x.Path)
	return nil
}

// take keeps a file unless it was taken already; key is what two of its names have in common.
func (f *finder) take(x file, key string) {
	if f.seen[key] {
		f.opts.skip(x.path, SkipRepeated)
		return
	}
	f.seen[key] = true
	f.files = append(f.files, x)
}

// follow returns where a link in a folder leads, as the way down from the folder, or the reason for which it isn't followed.
func follow(folder, link string) (rel, reason string, err error) {
	info, err := os.Stat(link)
	if err != nil {
		return "", "", err
	}
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return "", "", err
	}
	rel, err = filepath.Rel(folder, target)
	if err != nil || !filepath.IsLocal(rel) {
		return "", SkipLink, nil
	}
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		if strings.HasPrefix(part, ".") && part != "." { // what is passed over isn't read under another name
			return "", SkipLink, nil
		}
	}
	if !info.Mode().IsRegular() { // a link to a folder could lead in circles
		return "", SkipSpecial, nil
	}
	return rel, "", nil
}

func (o Options) skip(source, reason string) {
	if o.Skip != nil {
		o.Skip(source, reason)
	}
}

// cause returns an error's message without the path, which stands beside it.
func cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Op + ": " + pathErr.Err.Error()
	}
	return err.Error()
}

// uncompressed returns the name without an extension that says how the file is compressed.
func uncompressed(path string) string {
	if ext := strings.ToLower(filepath.Ext(path)); slices.Contains([]string{".gz", ".zst"}, ext) {
		return path[:len(path)-len(ext)]
	}
	return path
}

func describe(path string) string {
	if ext := filepath.Ext(uncompressed(path)); ext != "" {
		return "files of type " + ext
	}
	return "a file without an extension"
}
