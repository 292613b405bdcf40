// Package access says who may do what: tokens with a name, a right and the corpora that it is for, kept as hashes in a file that is
// read again when it changes.
//
// A token is 32 random bytes, so its hash is one round of SHA-256: what argon2 and bcrypt are slow for, words that people choose and
// others guess, isn't here, and a slow hash in every request would only be a way to keep the coordinator busy. Who reads the file
// learns names and rights, and no token.
package access

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Right is what a token lets its holder do; each holds the ones before it.
type Right int

// The rights.
const (
	// None is no right at all.
	None Right = iota
	// Read looks and asks: documents, trees, queries, answers, plans, status.
	Read
	// Write brings documents in and takes them out, and starts and stops builds.
	Write
	// Admin deletes corpora and collects garbage.
	Admin
)

var rightNames = []string{"none", "read", "write", "admin"}

// String returns the right's name.
func (r Right) String() string { return rightNames[r] }

// ParseRight returns the right of a name.
func ParseRight(name string) (Right, error) {
	if i := slices.Index(rightNames, name); i > 0 {
		return Right(i), nil
	}
	return None, fmt.Errorf("the right is %q; it must be read, write or admin", name)
}

// Grant is what somebody may do.
type Grant struct {
	// Name is who it is, for logs and the audit log.
	Name  string
	Right Right
	// Corpora are those that it is for; empty is all of them, those to come too.
	Corpora []string
}

// Sees reports whether a grant is for a corpus.
func (g Grant) Sees(corpus string) bool {
	return len(g.Corpora) == 0 || slices.Contains(g.Corpora, corpus)
}

// May reports whether a grant suffices for something that needs a right on a corpus; "" is no corpus in particular.
func (g Grant) May(right Right, corpus string) bool {
	return g.Right >= right && (corpus == "" || g.Sees(corpus))
}

var (
	name   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	corpus = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
)

// check refuses a grant that can't be meant.
func (g Grant) check() error {
	if !name.MatchString(g.Name) {
		return fmt.Errorf("the name is %q; it must be 1 to 64 letters, digits or ._@- and start with a letter or digit", g.Name)
	}
	for _, c := range g.Corpora {
		if !corpus.MatchString(c) {
			return fmt.Errorf(`%q is no name of a corpus; "*" alone stands for all of them`, c)
		}
	}
	return nil
}

// parseCorpora reads "a,b" or "*".
func parseCorpora(text string) []string {
	if text == "*" {
		return nil
	}
	return strings.Split(text, ",")
}

func (g Grant) corpora() string {
	if len(g.Corpora) == 0 {
		return "*"
	}
	return strings.Join(g.Corpora, ",")
}
