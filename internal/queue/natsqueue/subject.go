package natsqueue

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/aerie-rag/aerie/internal/queue"
	"github.com/aerie-rag/aerie/internal/tree"
)

const (
	taskPrefix = "aerie.task."
	deadPrefix = "aerie.dead."
)

// maxNameBytes bounds corpus and build names, so that no subject outgrows the server's limit on a protocol line.
const maxNameBytes = 255

// token writes any name as one subject token: letters, digits, - and _ stand for themselves, every other byte
// becomes = and two hexadecimal digits. Different names have different tokens.
func token(name string) string {
	plain := true
	for i := range len(name) {
		plain = plain && plainByte(name[i])
	}
	if plain {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plainByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

// untoken reads what token wrote.
func untoken(tok string) (string, error) {
	var b []byte
	for i := 0; i < len(tok); i++ {
		switch c := tok[i]; {
		case plainByte(c):
			b = append(b, c)
		case c == '=' && i+2 < len(tok):
			raw, err := hex.DecodeString(tok[i+1 : i+3])
			if err != nil {
				return "", fmt.Errorf("natsqueue: %q is not a name in a subject", tok)
			}
			b = append(b, raw[0])
			i += 2
		default:
			return "", fmt.Errorf("natsqueue: %q is not a name in a subject", tok)
		}
	}
	return string(b), nil
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the %s has no name", what)
	}
	if len(name) > maxNameBytes {
		return fmt.Errorf("the name of %s %.20s… has %d bytes; at most %d are allowed", what, name, len(name), maxNameBytes)
	}
	return nil
}

// buildSubject returns the beginning of the subjects of a build's tasks, with the final dot.
func buildSubject(prefix, corpus, build string) string {
	return prefix + token(corpus) + "." + token(build) + "."
}

// levelSubject returns the beginning of the subjects of a level's tasks, with the final dot.
func levelSubject(prefix string, level queue.Level) string {
	return buildSubject(prefix, level.Corpus, level.Build) + strconv.Itoa(level.Level) + "."
}

func subjectOf(prefix string, t *queue.Task) string {
	return levelSubject(prefix, t.Of()) + t.ID.String()
}

// subjectID returns the id at the end of a task's subject.
func subjectID(subject string) (tree.ID, error) {
	return tree.ParseID(subject[strings.LastIndexByte(subject, '.')+1:])
}

// checkTask reports why a task can't be queued.
func checkTask(t *queue.Task) error {
	if err := checkName("corpus", t.Corpus); err != nil {
		return err
	}
	if err := checkName("build", t.Build); err != nil {
		return err
	}
	if t.Level < 1 {
		return fmt.Errorf("its level is %d; summaries begin at 1", t.Level)
	}
	if t.ID.IsZero() {
		return fmt.Errorf("it has no id")
	}
	return queue.CheckHeaders(t.Headers)
}
