package corpus

import (
	"hash/maphash"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Limits of the counter.
const (
	// longestPiece is the most bytes that are given to the tokenizer at once.
	longestPiece = 1024
	// cachedPiece is the longest piece whose count is remembered.
	cachedPiece = 48
	// cacheShards x cacheShard is the number of counts remembered: about 8 MB when full.
	cacheShards = 32
	cacheShard  = 4096
)

// Counter counts tokens as the o200k_base vocabulary cuts them, offline. The vocabulary is unpacked at the first call and
// shared by all counters of the process. A Counter may be used from many goroutines.
//
// The count is that of the tokenizer for every text in which no run without a certain boundary ([boundary]) is longer than 1,024
// bytes. A longer run, such as 60,000 Chinese characters without a mark between them, is cut into pieces of that size, so that
// the time stays linear; each such cut can add a token or two, and the count is then an upper estimate.
type Counter struct {
	codec func() *codec.Codec
	seed  maphash.Seed
	cache [cacheShards]shard
}

// shard is one part of the cache. It is emptied when full: what a text repeats is back at once.
type shard struct {
	sync.RWMutex
	counts map[string]int32
}

// NewCounter returns a counter.
func NewCounter() *Counter {
	c := &Counter{codec: sync.OnceValue(codec.NewO200kBase), seed: maphash.MakeSeed()}
	for i := range c.cache {
		c.cache[i].counts = map[string]int32{}
	}
	return c
}

// Count returns the number of tokens of a text; that of the empty text is 0.
func (c *Counter) Count(text string) int {
	total := 0
	for len(text) > 0 {
		n := nextPiece(text)
		total += c.piece(text[:n])
		text = text[n:]
	}
	return total
}

// piece counts the tokens of a text between two boundaries.
func (c *Counter) piece(text string) int {
	if len(text) > cachedPiece {
		return c.tokenize(text)
	}
	s := &c.cache[maphash.String(c.seed, text)%cacheShards]
	s.RLock()
	n, ok := s.counts[text]
	s.RUnlock()
	if ok {
		return int(n)
	}
	n = int32(c.tokenize(text))
	s.Lock()
	if len(s.counts) >= cacheShard {
		clear(s.counts)
	}
	s.counts[strings.Clone(text)] = n // a key must not keep a whole document in memory
	s.Unlock()
	return int(n)
}

func (c *Counter) tokenize(text string) int {
	total := 0
	for len(text) > 0 {
		n := len(text)
		if n > longestPiece {
			n = longestPiece
			for n > longestPiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
				n--
			}
		}
		count, err := c.codec().Count(text[:n])
		if err != nil { // only a time limit of the regular expression, and none is set
			panic("corpus: the tokenizer failed: " + err.Error())
		}
		total += count
		text = text[n:]
	}
	return total
}
