package redisstate

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/aerie-rag/aerie/internal/tree"
)

// escape makes a name safe within the braces of a key: what is left holds no colon, brace or slash, so that two
// different names, or pairs of names, never give the same key.
func escape(name string) string {
	// QueryEscape leaves letters, digits, and - _ . ~ as they are.
	return strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
}

// corpusKey names a key of a corpus.
func (s *State) corpusKey(corpus, what string) string {
	return s.cfg.Prefix + ":{" + escape(corpus) + "}:" + what
}

// buildKey names a key of a build.
func (s *State) buildKey(corpus, build, what string) string {
	return s.cfg.Prefix + ":{" + escape(corpus) + ":" + escape(build) + "}:" + what
}

// sharedKey names a key that belongs to no corpus. The slash keeps it apart from any corpus's.
func (s *State) sharedKey(group, what string) string {
	return s.cfg.Prefix + ":{/" + group + "}:" + what
}

// levelKeys names the keys of a barrier: meta, done, dead, and the build's set of levels.
func (s *State) levelKeys(level tree.Level) []string {
	n := "L" + strconv.Itoa(level.Level)
	return []string{
		s.buildKey(level.Corpus, level.Build, n+":meta"),
		s.buildKey(level.Corpus, level.Build, n+":done"),
		s.buildKey(level.Corpus, level.Build, n+":dead"),
		s.buildKey(level.Corpus, level.Build, "levels"),
	}
}
