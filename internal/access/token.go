package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// prefix tells a token when somebody finds one where it shouldn't be.
const prefix = "aerie_"

// hashMark names the kind of hash in the file.
const hashMark = "sha256:"

// hash is that of a token.
type hash [sha256.Size]byte

// entry is one line of the file.
type entry struct {
	Grant
	hash hash
}

// Create makes a token, and the line of the tokens file that lets it in. corpora is empty for all of them.
func Create(name string, right Right, corpora []string) (token, line string, err error) {
	g := Grant{Name: name, Right: right, Corpora: corpora}
	if err := g.check(); err != nil {
		return "", "", fmt.Errorf("access: %w", err)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	token = prefix + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, strings.Join([]string{name, right.String(), g.corpora(), hashMark + hex.EncodeToString(sum[:])}, " "), nil
}

// parse reads a tokens file: NAME RIGHT CORPORA sha256:HASH on each line, # begins a comment. Two lines may have one name, so
// that a token can be replaced without a gap; more can't.
func parse(text string) ([]entry, error) {
	var all []entry
	named := map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e, err := parseLine(fields)
		if err == nil {
			if named[e.Name]++; named[e.Name] > 2 {
				err = fmt.Errorf("%s has more than two tokens; two are for the time in which one replaces the other", e.Name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		all = append(all, e)
	}
	return all, nil
}

func parseLine(fields []string) (entry, error) {
	if len(fields) != 4 {
		return entry{}, fmt.Errorf("it has %d words; it must be NAME RIGHT CORPORA %sHASH, as aerie token create prints it", len(fields), hashMark)
	}
	e := entry{Grant: Grant{Name: fields[0], Corpora: parseCorpora(fields[2])}}
	var err error
	if e.Right, err = ParseRight(fields[1]); err != nil {
		return e, err
	}
	if err := e.check(); err != nil {
		return e, err
	}
	text, ok := strings.CutPrefix(fields[3], hashMark)
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != len(e.hash) {
		return e, fmt.Errorf("its last word is no %s and 64 hexadecimal digits; a token itself must not stand here", hashMark)
	}
	copy(e.hash[:], sum)
	return e, nil
}

// find returns the grant of a token. All lines are compared, whichever is right.
func find(all []entry, token string) (g Grant, ok bool) {
	sum := hash(sha256.Sum256([]byte(token)))
	for i := range all {
		if subtle.ConstantTimeCompare(sum[:], all[i].hash[:]) == 1 {
			g, ok = all[i].Grant, true
		}
	}
	return g, ok
}
