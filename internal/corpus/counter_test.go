package corpus

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"
)

// alphabet has members of every class that the tokenizer's expression knows, and of many scripts.
var alphabet = []string{
	"a", "b", "z", "A", "B", "Z", "é", "É", "ǅ", "ʰ", "ß", "ſ", "K", "ж", "Ж", "α", "Ω",
	"中", "文", "の", "カ", "한", "क", "ि", "्", "ा", "ع", "ر", "ب", "ี", "ไ", "ท", "ย", "́", "̈", "\u200d", "\u200c",
	"0", "1", "9", "٣", "½", "Ⅷ", " ", "  ", "\t", "\n", "\r\n", "\r", "\v", "\f", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\ufeff",
	".", ",", "!", "?", "'", "’", "'s", "'S", "'re", "'LL", "'d", "\"", "(", ")", "/", "//", "-", "_", "#", "=", "。", "，", "！", "？", "」", "।", "؟",
	"😀", "👩‍👩‍👧", "\x00", "\x1b", "<|endoftext|>", "word", " word", "Word", "HTTPServer", "don't", "I'M", "12345",
}

func TestCountIsThatOfTheTokenizer(t *testing.T) {
	c, lib := NewCounter(), codec.NewO200kBase()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 60).Draw(t, "text"), "")
		check(t, c, lib, text)
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func check(t fataler, c *Counter, lib *codec.Codec, text string) {
	want, err := lib.Count(text)
	if err != nil {
		t.Fatalf("tokenizer: %v", err)
	}
	if got := c.Count(text); got != want {
		t.Fatalf("Count(%q) = %d, the tokenizer says %d", text, got, want)
	}
}

// Every rune stands in every neighborhood that decides a boundary, so that a rune which this package and the tokenizer
// class differently is found. Of the large blocks of one class every 61st is enough.
func TestEveryRuneIsClassedAsTheTokenizerDoes(t *testing.T) {
	c, lib := NewCounter(), codec.NewO200kBase()
	var b strings.Builder
	for r := rune(1); r <= unicode.MaxRune; r++ {
		large := unicode.In(r, unicode.Han, unicode.Hangul, unicode.Tangut, unicode.Co)
		if large && r%61 != 0 || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co) {
			continue
		}
		for _, around := range [][2]string{{"a", "b"}, {"A", "B"}, {".", "."}, {"1", "1"}, {" ", " "}, {"\n", "/"}, {"  ", "a"}} {
			b.WriteString(around[0])
			b.WriteRune(r)
			b.WriteString(around[1])
			b.WriteRune(r)
			b.WriteByte('\n')
		}
		if b.Len() > 1000 {
			check(t, c, lib, b.String())
			b.Reset()
		}
	}
}

// A run without a boundary is cut into pieces, which must not make it much longer.
func TestCountOfARunWithoutBoundary(t *testing.T) {
	c, lib := NewCounter(), codec.NewO200kBase()
	text := strings.Repeat("我们先定义一下字符串这一术语的具体意义吧", 3_000)
	want, err := lib.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Count(text); got < want || got > want+want/50 {
		t.Errorf("Count = %d, the tokenizer says %d", got, want)
	}
}

func TestCountFromManyGoroutines(t *testing.T) {
	c := NewCounter()
	text := strings.Repeat(strings.Join(alphabet, ""), 20)
	want := NewCounter().Count(text)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := c.Count(text); got != want {
					t.Errorf("Count = %d, want %d", got, want)
				}
			}
		})
	}
	wg.Wait()
}

// The cache must not grow without bound: it is emptied when full, and counts stay right.
func TestCacheIsBounded(t *testing.T) {
	c := NewCounter()
	for i := range 3 * cacheShards * cacheShard / 2 {
		c.Count(strconv.FormatInt(int64(i)*7919, 36) + "x ")
	}
	held := 0
	for i := range c.cache {
		held += len(c.cache[i].counts)
	}
	if held > cacheShards*cacheShard {
		t.Errorf("%d counts are held, at most %d should be", held, cacheShards*cacheShard)
	}
	check(t, c, codec.NewO200kBase(), "the quick brown fox")
}

func FuzzCount(f *testing.F) {
	c, lib := NewCounter(), codec.NewO200kBase()
	f.Add(strings.Join(alphabet, ""))
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < longestPiece {
			check(t, c, lib, text)
		}
	})
}
