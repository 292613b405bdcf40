// Package audit keeps the audit log: one JSON line for each change of documents, builds and corpora that was made or tried, with when,
// who, what and the outcome.
//
// A line is written when its change has ended, with one call, so that lines of several processes never mix; a file that was moved away
// is begun anew. Whatever comes from outside has lost what would steer a terminal. Without a file the lines are records of the
// program's own log, of level info, under the message "audit".
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aerie-rag/aerie/internal/api"
	"github.com/aerie-rag/aerie/internal/printable"
)

// Outcomes of changes.
const (
	Done    = "done"
	Refused = "refused" // for lack of a right, or because it can't be meant or done now
	Failed  = "failed"
)

// line is one line of the log.
type line struct {
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Remote string    `json:"remote,omitempty"`
	Action string    `json:"action"`
	Corpus string    `json:"corpus"`
	// Objects are the first of them, Count is how many there are.
	Objects []string       `json:"objects,omitempty"`
	Count   int            `json:"count,omitempty"`
	Outcome string         `json:"outcome"`
	Why     string         `json:"why,omitempty"`
	Changed map[string]int `json:"changed,omitempty"`
}

// The longest of what a line names.
const (
	mostObjects = 20
	longestText = 400
)

// Log is an audit log. Its methods may be called from many goroutines.
type Log struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File
}

var _ api.Auditor = (*Log)(nil)

// Open opens the file, which is created if need be, for its owner alone; with "" the lines go to log, where complaints about the file go
// too. Close it.
func Open(path string, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, log: log}
	if path == "" {
		return l, nil
	}
	return l, l.open()
}

func (l *Log) open() (err error) {
	if l.file, err = os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Changed implements [api.Auditor]. A line that the file can't take goes to the log of the program, at error.
func (l *Log) Changed(ctx context.Context, c api.Change) {
	who := api.CallerOf(ctx)
	x := line{
		Time: time.Now().UTC(), Who: text(who.Name), Remote: text(who.Remote), Action: c.Action, Corpus: text(c.Corpus), Outcome: Done, Changed: c.Counts,
	}
	if x.Who == "" {
		x.Who = "aerie"
	}
	for _, object := range c.Objects[:min(len(c.Objects), mostObjects)] {
		x.Objects = append(x.Objects, text(object))
	}
	if len(c.Objects) > mostObjects {
		x.Count = len(c.Objects)
	}
	if c.Err != nil {
		x.Outcome, x.Why = Failed, text(c.Err.Error())
		if status := api.Judge(c.Err).Status; status >= 400 && status < 500 {
			x.Outcome = Refused
		}
	}
	l.write(x)
}

func (l *Log) write(x line) {
	data, err := json.Marshal(x)
	if err != nil {
		panic("audit: a line always encodes: " + err.Error())
	}
	if l.path == "" {
		l.log.Info("audit", "audit", json.RawMessage(data))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.current(); err == nil {
		_, err = l.file.Write(append(data, '\n'))
	}
	if err != nil {
		l.log.Error("the audit log can't be written", "error", err, "audit", json.RawMessage(data))
	}
}

// current sees to it that the open file is the one that has the name.
func (l *Log) current() error {
	if l.file != nil {
		open, err := l.file.Stat()
		named, statErr := os.Stat(l.path)
		if err == nil && statErr == nil && os.SameFile(open, named) {
			return nil
		}
		if err := errors.Join(err, l.file.Close()); err != nil {
			l.log.Warn("the audit log before was not closed cleanly", "error", err)
		}
		l.file = nil
	}
	return l.open()
}

// text makes what comes from outside fit for a line.
func text(s string) string {
	s = printable.Line(s)
	if runes := []rune(s); len(runes) > longestText {
		s = string(runes[:longestText]) + "…"
	}
	return s
}
