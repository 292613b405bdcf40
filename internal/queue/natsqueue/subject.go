package natsqueue

import (
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
func levelSubject(prefix string, level tree.Level) string {
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
