package word

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSegment(t *testing.T) {
	for _, test := range []struct{ text, index, query string }{
		{"", "", ""},
		{" \t\n?!", "", ""},
		{"The cat's hat, v3.14!", "the cat s hat v3 14", "the cat s hat v3 14"},
		{"asyncio.gather(foo_bar)", "asyncio gather foo bar", "asyncio gather foo bar"},
		{"Straße ＡＢＣ ﬁne Ⅳ", "strasse abc fine iv", "strasse abc fine iv"},
		{"naïve nai\u0308ve", "naïve naïve", "naïve naïve"},
		{"肺癌", "肺 癌 肺癌", "肺癌"},
		{"癌", "癌", "癌"},
		{"肺癌症。咳", "肺 癌 肺癌 症 癌症 咳", "肺癌 癌症 咳"},
		{"用Rust写", "用 rust 写", "用 rust 写"},
		{"ｶﾀｶﾅ", "カ タ カタ カ タカ ナ カナ", "カタ タカ カナ"},
		{"猫です", "猫 で 猫で す です", "猫で です"},
		{"ที่นี่", "ที่ นี่ ที่นี่", "ที่นี่"},
		{"한국어", "한 국 한국 어 국어", "한국 국어"},
		{"हिन्दी में", "हिन्दी में", "हिन्दी में"},
		{"e\u0301\u0301", "é\u0301", "é\u0301"},
		{"\u0301alone", "\u0301alone", "\u0301alone"},
	} {
		if d := cmp.Diff(test.index, strings.TrimSpace(Segment(test.text, false))); d != "" {
			t.Errorf("index of %q (-want +got):\n%s", test.text, d)
		}
		if d := cmp.Diff(test.query, strings.TrimSpace(Segment(test.text, true))); d != "" {
			t.Errorf("query of %q (-want +got):\n%s", test.text, d)
		}
	}
}

// TestEach holds that every script that is written without spaces gives pairs: packing by coverage once took Katakana for one word,
// and cut Hangul at its spaces alone.
func TestEach(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		" ,;- !":                     nil,
		"ひらがなカタカナ":                   {"ひら", "らが", "がな", "なカ", "カタ", "タカ", "カナ"},
		"한국어 문장":                     {"한국", "국어", "문장"},
		"ภาษาไทย":                    {"ภา", "าษ", "ษา", "าไ", "ไท", "ทย"},
		"Rust 的所有权。下":                {"rust", "的所", "所有", "有权", "下"},
		"the cat, the patient's cat": {"the", "cat", "the", "patient", "s", "cat"},
	} {
		var got []string
		Each(text, func(word string) { got = append(got, word) })
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

// Plain ASCII takes a shorter way, to the same words.
func TestSegmentASCIIAgrees(t *testing.T) {
	for _, text := range []string{
		"Hello, World 42", "a-b_c.d/e\\f", "\x00\x01 x\x7f", "ALL CAPS", strings.Repeat("ab1", 200), strings.Repeat("x", 96), "tail ",
	} {
		long := strings.Split(Segment(text+" é", false), " ")
		if d := cmp.Diff(long[:len(long)-1], strings.Split(Segment(text, false), " ")); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

func TestQuery(t *testing.T) {
	for text, want := range map[string][]string{
		"":                       nil,
		"?":                      nil,
		`a OR "b" NOT a NEAR`:    {"a", "or", "b", "not", "near"},
		"肺癌 cancer 肺癌":           {"肺癌", "cancer"},
		`"; DROP TABLE nodes;--`: {"drop", "table", "nodes"},
	} {
		if d := cmp.Diff(want, Query(text)); d != "" {
			t.Errorf("words of %q (-want +got):\n%s", text, d)
		}
	}
}
