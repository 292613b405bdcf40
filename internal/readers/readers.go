// Package readers turns files as people have them into text that a corpus can be cut from: one reader for each kind of file, each
// bounded in memory and time, and none that guesses. What comes out is Markdown in all but name: headings with #, list items with -,
// tables with |, code between fences; blank lines between blocks.
//
// A reader sees the bytes of one file, unpacked, and no file system. What is wrong with a file is one sentence, and a file that holds
// no text is an error that says why, never an empty document.
package readers

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// Part is one document of a file.
type Part struct {
	// Name tells the parts of a file apart; "" where the file is the document.
	Name string
	// Text is valid UTF-8.
	Text string
	// Metadata is what the file says about the part: string, int64, float64, bool, or a slice of one of these. Nil if nothing.
	Metadata map[string]any
}

// Result is what a file holds: parts, rows that are leaves as they are, or lines of JSONL.
type Result struct {
	Parts []Part
	Rows  []string
	// Lines are rows of JSONL, as a corpus takes them.
	Lines [][]byte
	// Notes say what could not be read, though the rest was.
	Notes []string
}

// one is a file that is one document.
func one(text string) (Result, error) {
	if strings.TrimSpace(text) == "" {
		return Result{}, errNoText
	}
	return Result{Parts: []Part{{Text: text}}}, nil
}

// errNoText: a file that was understood, and says nothing.
var errNoText = errors.New("it holds no text")

// Tools are what readers use of each other and of their caller.
type Tools struct {
	// HTML reads a page.
	HTML func(page []byte) (string, error)
	// Cache is a folder for code that was compiled once; "" for none.
	Cache string
	// Encoding is the name of the encoding of texts that don't say theirs, as the WHATWG lists them; "" is UTF-8.
	Encoding string
}

// Reader reads one kind of file.
type Reader struct {
	// Name is what --as takes.
	Name string
	// Extensions are in small letters, with the dot.
	Extensions []string
	// About says in a few words what it reads, for help.
	About string
	// Code says that the text is program code: every line counts.
	Code bool
	// Read may not keep data. Its error is one sentence about the file.
	Read func(ctx context.Context, data []byte, t Tools) (Result, error)
}

// All are the readers, in the order of help.
func All() []Reader { return slices.Clone(all) }

// Of returns the reader of a file's extension, in any case; ok is false if there is none.
func Of(path string) (Reader, bool) {
	ext := strings.ToLower(filepath.Ext(path))
	base := strings.ToLower(filepath.Base(path))
	for _, r := range all {
		if ext != "" && slices.Contains(r.Extensions, ext) {
			return r, true
		}
	}
	if slices.Contains(textNames, base) {
		return Named("text")
	}
	return Reader{}, false
}

// textNames are files without an extension that are text by custom.
var textNames = []string{"license", "licence", "copying", "readme", "changelog", "changes", "authors", "notice", "news", "todo", "install", "contributing", "history"}

// Named returns the reader with a name.
func Named(name string) (Reader, bool) {
	at := slices.IndexFunc(all, func(r Reader) bool { return r.Name == name })
	if at < 0 {
		return Reader{}, false
	}
	return all[at], true
}

// Names lists the names of all readers.
func Names() []string {
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.Name
	}
	return names
}
