package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aerie-rag/aerie/internal/readers"
)

// jsonlName is what --as calls JSONL, which is read row by row and has no reader of its own.
const jsonlName = "jsonl"

// Check reports the first setting that is wrong.
func (r Reading) Check() error {
	if err := checkSource(r.Source); err != nil {
		return err
	}
	if _, ok := readers.Named(r.As); r.As != "" && r.As != jsonlName && !ok {
		return fmt.Errorf("--as is %q; it must be one of %s", r.As, strings.Join(append(readers.Names(), jsonlName), ", "))
	}
	if r.Encoding != "" {
		if _, err := readers.Encoding(r.Encoding); err != nil {
			return err
		}
	}
	return nil
}

// classify sets how a file is read: as it was told, by a command of the user's, by its extension, or, if it has none, by its content.
func (o Options) classify(x *file, named bool) bool {
	name := uncompressed(x.path)
	ext := strings.ToLower(filepath.Ext(name))
	known, ok := readers.Of(name)
	lines := ext == ".jsonl" || ext == ".ndjson"
	switch {
	case o.As != "" && (named || x.included || !ok && !lines):
		x.lines = o.As == jsonlName
		x.reader, _ = readers.Named(o.As)
		return true
	case o.Commands[strings.TrimPrefix(ext, ".")] != "":
		x.reader = commandReader(o.Commands[strings.TrimPrefix(ext, ".")])
		return true
	case lines:
		x.lines = true
		return true
	case ok:
		x.reader = known
		return true
	case ext == "" || x.included:
		return x.sniff()
	}
	return false
}

// sniffed is how many bytes of a file tell what it is.
const sniffed = 8 << 10

// sniff looks into a file whose name says nothing.
func (x *file) sniff() bool {
	f, err := x.open()
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, sniffed))
	if err != nil {
		return false
	}
	name := ""
	switch lower := bytes.ToLower(bytes.TrimSpace(head[:min(len(head), 512)])); {
	case bytes.HasPrefix(head, []byte("%PDF-")):
		name = "pdf"
	case bytes.HasPrefix(lower, []byte("<!doctype html")), bytes.HasPrefix(lower, []byte("<html")):
		name = "html"
	case bytes.HasPrefix(head, []byte("#!")), bytes.IndexByte(head, 0) >= 0, len(bytes.TrimSpace(head)) == 0:
		return false // a program, or no text
	case bytes.HasPrefix(head, []byte("From ")):
		name = "mailbox"
	case utf8.Valid(head[:runes(head)]):
		name = "text"
	default:
		return false
	}
	x.reader, _ = readers.Named(name)
	return true
}

// runes is how many bytes of a text that was cut off hold whole characters.
func runes(head []byte) int {
	n := len(head)
	for n > 0 && len(head)-n < utf8.UTFMax && !utf8.RuneStart(head[n-1]) {
		n--
	}
	if n > 0 && !utf8.FullRune(head[n-1:]) {
		n--
	}
	return n
}

// IsFileID reports whether a document with this id is a file, by its name: documents of rows may be called anything.
func IsFileID(id string) bool {
	name, _, _ := strings.Cut(id, "#")
	_, ok := readers.Of(uncompressed(name))
	return ok
}

// The bounds of a command of the user's.
const (
	commandTime = 10 * time.Minute
	commandSaid = 2000 // bytes of what it says on stderr that are shown
)

// commandReader reads files by a command: the file on stdin, its text on stdout.
func commandReader(command string) readers.Reader {
	return readers.Reader{Name: "command", Read: func(ctx context.Context, data []byte, t readers.Tools) (readers.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, commandTime)
		defer cancel()
		args := strings.Fields(command)
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.WaitDelay = 5 * time.Second
		var said, text bounded
		said.left, text.left = commandSaid, largest
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &text, &said
		err := cmd.Run()
		switch {
		case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return readers.Result{}, fmt.Errorf("%s was not done within %s", args[0], commandTime)
		case ctx.Err() != nil:
			return readers.Result{}, ctx.Err()
		case err != nil:
			why := strings.Join(strings.Fields(strings.ToValidUTF8(said.String(), "\ufffd")), " ")
			return readers.Result{}, fmt.Errorf("%s failed: %w %s", args[0], err, why)
		case text.left < 0:
			return readers.Result{}, fmt.Errorf("%s wrote more than %d MiB", args[0], largest>>20)
		}
		decoded, _, err := readers.Decode(text.Bytes(), "")
		if err != nil {
			return readers.Result{}, fmt.Errorf("what %s wrote: %w", args[0], err)
		}
		if isBlank([]byte(decoded)) {
			return readers.Result{}, fmt.Errorf("%s wrote no text", args[0])
		}
		return readers.Result{Parts: []readers.Part{{Text: decoded}}}, nil
	}}
}

// bounded keeps what is written up to a bound, and passes over the rest.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if b.left >= 0 {
		_, _ = b.Buffer.Write(p[:min(n, b.left)])
		b.left -= n
	}
	return n, nil
}
