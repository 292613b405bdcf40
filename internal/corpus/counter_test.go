package corpus

import (
	"strings"
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
// class differently is found.
func TestEveryRuneIsClassedAsTheTokenizerDoes(t *testing.T) {
	c, lib := NewCounter(), codec.NewO200kBase()
	var b strings.Builder
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.C) {
			continue
		}
		b.Reset()
		for _, around := range [][2]string{{"a", "b"}, {"A", "B"}, {".", "."}, {"1", "1"}, {" ", " "}, {"\n", "/"}, {"  ", "a"}} {
			b.WriteString(around[0])
			b.WriteRune(r)
			b.WriteString(around[1])
			b.WriteRune(r)
			b.WriteByte('\n')
		}
		check(t, c, lib, b.String())
	}
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

