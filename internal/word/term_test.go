package word

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTerms(t *testing.T) {
	kinds := map[Kind]string{Word: "w", Number: "n", Wide: "i"}
	for text, want := range map[string][]string{
		"Don't PANIC, 42 times!":  {"w:don", "w:t", "w:panic", "n:42", "w:times"},
		"ＡＢＣ ﬁne":                 {"w:abc", "w:fine"},        // NFKC: full-width letters, a ligature
		"Straße ΣΊΣΥΦΟΣ":          {"w:strasse", "w:σίσυφοσ"}, // full case folding
		"Go语言 is 语言2go":           {"w:go", "i:语言", "w:is", "i:语言", "n:2go"},
		"カタカナとひらがな。":              {"i:カタカナとひらがな"},
		"สวัสดี ชาวโลก":           {"i:สวัสดี", "i:ชาวโลก"}, // its vowel signs are marks
		"हिन्दी में":              {"w:हिन्दी", "w:में"},
		"한국어 문장":                  {"w:한국어", "w:문장"},
		"--- ***\n\t!":            nil,
		"naïve cafe\u0301 CAFÉ":   {"w:naïve", "w:café", "w:café"}, // composed by NFKC
		"a_b snake_case x+y e.g.": {"w:a", "w:b", "w:snake", "w:case", "w:x", "w:y", "w:e", "w:g"},
	} {
		var got []string
		EachTerm(text, nil, func(t Term) {
			got = append(got, kinds[t.Kind]+":"+string(t.Text))
			if n := len([]rune(string(t.Text))); n != t.Runes {
				got = append(got, "wrong length")
			}
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func FuzzTerms(f *testing.F) {
	f.Add("Don't stop 语言 สวัสดี \xff\xfe")
	f.Fuzz(func(t *testing.T, s string) {
		EachTerm(s, nil, func(term Term) {
			if len(term.Text) == 0 || term.Runes == 0 {
				t.Errorf("an empty term in %q", s)
			}
		})
	})
}
