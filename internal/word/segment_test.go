package word

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSegment(t *testing.T) {
	for _, test := range []struct{ text, index, query string }{
		{"", "", ""},
		{" \t\n?!", "", ""},
		{"The cat's hat, v3.14!", "the cat s hat v3 14 v3.14 3.14", "the cat s hat v3 14 v3.14 3.14"},
		{"asyncio.gather(foo_bar)", "asyncio gather asyncio.gather .gather foo bar foo_bar", "asyncio gather asyncio.gather foo bar foo_bar"},
		{"Straße ＡＢＣ ﬁne Ⅳ", "strasse abc fine iv", "strasse abc fine iv"},
		{"naïve nai\u0308ve", "naive naive", "naive naive"},
		{"肺癌", "肺 癌 肺癌", "肺癌"},
		{"癌", "癌", "癌"},
		{"肺癌症。咳", "肺 癌 肺癌 症 癌症 咳", "肺癌 癌症 咳"},
		{"用Rust写", "用 rust 写", "用 rust 写"},
		{"ｶﾀｶﾅ", "カ タ カタ カ タカ ナ カナ", "カタ タカ カナ"},
		{"猫です", "猫 で 猫で す です", "猫で です"},
		{"ที่นี่", "ที่ นี่ ที่นี่", "ที่นี่"},
		{"한국어", "한 국 한국 어 국어", "한국 국어"},
		{"हिन्दी में", "हिन्दी में", "हिन्दी में"},
		{"e\u0301\u0301", "e", "e"},
		{"\u0301alone", "alone", "alone"},
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

// TestC12 holds that what isn't seen, marks that may be left out and case make no other word, in both normal forms.
func TestC12InvisibleCharactersMarksAndCase(t *testing.T) {
	for query, texts := range map[string][]string{
		"cafe muller":   {"café Müller", "cafe\u0301 Mu\u0308ller", "CAFÉ MÜLLER", "ca\u00adfé Mül\u200bler", "\ufeffca\u2060fe muller\u200e"},
		"smorrebrod":    {"Smørrebrød", "SMØRREBRØD"},
		"lodz":          {"Łódź", "Ło\u0301dz\u0301"},
		"viet nam":      {"Việt Nam", "Vie\u0302\u0323t Nam"},
		"istanbul":      {"İstanbul", "ISTANBUL", "ıstanbul"},
		"σισυφος":       {"Σίσυφος", "ΣΊΣΥΦΟΣ"},
		"елка":          {"ёлка", "ЁЛКА", "е\u0308лка"},
		"شمس":           {"شَمْس", "شـــمس"},
		"שלום":          {"שָׁלוֹם"},
		"क़लम":          {"क\u093cलम", "कलम"},
		"strasse":       {"Straße", "STRASSE", "stra\u00adße"},
		"می\u200cخواهم": {"می\u200cخواهم", "میخواهم"},
		"ガラス":           {"ｶﾞﾗｽ", "カ\u3099ラス"},
		"한국":            {"\u1112\u1161\u11ab\u1100\u116e\u11a8"},
		"i❤️":           {"I❤"},
	} {
		want := Segment(query, false)
		for _, text := range texts {
			if got := Segment(text, false); got != want {
				t.Errorf("%q (%+q) has the words%q, %q has%q", text, text, got, query, want)
			}
		}
	}
	for _, pair := range [][2]string{{"か", "が"}, {"हद", "हिन्दी"}, {"กา", "ก่า"}} {
		if a, b := Segment(pair[0], true), Segment(pair[1], true); a == b {
			t.Errorf("%q and %q are the same word%q", pair[0], pair[1], a)
		}
	}
}

// TestC13 holds that names with signs in them are words as they are, and apart from others with the same letters.
func TestC13NamesWithSigns(t *testing.T) {
	for _, test := range []struct{ text, index, query string }{
		{"C++, C# and C", "c c++ c c# and c", "c++ c# and c"},
		{"Ｃ＋＋ C♯ F#.", "c c++ c c# f f#", "c++ c# f#"},
		{"C++11 i++; a+b 65+ Title ##", "c c++ 11 i i++ a b 65 title", "c++ 11 i++ a b 65 title"},
		{"C#是语言", "c c# 是 语 是语 言 语言", "c# 是语 语言"},
		{"page#part C/C++.", "page part c c c++", "page part c c++"},
		{"the .NET way; ASP.NET", "the net .net way asp net asp.net .net", "the .net way asp net asp.net"},
		{"the end.Next ... e.g. it", "the end next end.next .next e g e.g it", "the end next end.next e g e.g it"},
		{"ERR_CONN_RESET", "err conn reset err_conn_reset", "err conn reset err_conn_reset"},
		{"__init__ a__b", "init a b a__b", "init a b a__b"},
		{"0x80070005 0X1F 0xyz", "0x80070005 80070005 0x1f 1f 0xyz", "0x80070005 80070005 0x1f 1f 0xyz"},
		{"cfg.max_retry.n", "cfg max retry n cfg.max_retry.n max_retry", "cfg max retry n cfg.max_retry.n max_retry"},
		{"R&D a & b", "r d r&d a b", "r d r&d a b"},
		{strings.Repeat("a.", 60) + "b", strings.Repeat("a ", 60) + "b", strings.Repeat("a ", 60) + "b"},
	} {
		if d := cmp.Diff(test.index, strings.TrimSpace(Segment(test.text, false))); d != "" {
			t.Errorf("index of %q (-want +got):\n%s", test.text, d)
		}
		if d := cmp.Diff(test.query, strings.TrimSpace(Segment(test.text, true))); d != "" {
			t.Errorf("query of %q (-want +got):\n%s", test.text, d)
		}
	}
}

// FuzzSegment holds that every word of a query for a text is among those of its index, and none is too long or broken.
func FuzzSegment(f *testing.F) {
	for _, s := range []string{"C++ .NET v1.2 a_b&c 0x1f", "肺癌の e\u0301 ﷺ ǅ ß İ \xff", "a\u200db\u0e33", strings.Repeat("long.", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		index := map[string]bool{}
		for word := range strings.FieldsSeq(Segment(text, false)) {
			index[word] = true
			if len(word) > MaxBytes || !utf8.ValidString(word) {
				t.Errorf("word %q of %q", word, text)
			}
		}
		Each(text, func(word string) {
			if !index[word] {
				t.Errorf("%q of the query %q is not in its index", word, text)
			}
		})
		if n := Count(Segment(text, false)); n != len(strings.Fields(Segment(text, false))) {
			t.Errorf("%q is counted as %d words", text, n)
		}
	})
}

// TestC15ContextWords: a context adds the words that the text lacks, once each.
func TestC15ContextWords(t *testing.T) {
	for _, test := range []struct{ context, text, want string }{
		{"", "run it", " run it"}, {"Guide › run Guide", "run it", " run it guide"}, {"Guide", "", " guide"},
	} {
		if got := Indexed(test.context, test.text); got != test.want {
			t.Errorf("Indexed(%q, %q) = %q, want %q", test.context, test.text, got, test.want)
		}
		if got := Count(Indexed(test.context, test.text)); got != strings.Count(test.want, " ") {
			t.Errorf("Indexed(%q, %q) has %d words", test.context, test.text, got)
		}
	}
}
