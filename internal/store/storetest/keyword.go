package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// putTexts puts one leaf for each text.
func (s *suite) putTexts(texts ...string) {
	s.Helper()
	var nodes []tree.Node
	for i, text := range texts {
		nodes = append(nodes, s.leaf("d", i, text))
	}
	s.put(nodes...)
}

// finds checks which texts a query finds, in whatever order.
func (s *suite) finds(query string, want ...string) {
	s.Helper()
	got := s.keyword(query, 100, store.AnyLevel())
	slices.Sort(got)
	slices.Sort(want)
	s.same(fmt.Sprintf("texts found by %q", query), got, want)
}

var keywordTests = []contractTest{
	{"AnyWord", func(s *suite) {
		s.putTexts("the cat sat", "a dog ran", "cat and dog", "fish")
		s.finds("cat", "the cat sat", "cat and dog")
		s.finds("cat fish", "the cat sat", "cat and dog", "fish")
		s.finds("horse")
		s.same("best of two words", s.keyword("cat dog", 1, store.AnyLevel()), []string{"cat and dog"})
	}},
	{"CaseAndPunctuation", func(s *suite) {
		s.putTexts("Straße, GROSS!", "state-of-the-art", "e-mail: a@example.com", "ＦＵＬＬｗｉｄｔｈ")
		s.finds("gross", "Straße, GROSS!")
		s.finds("STRASSE", "Straße, GROSS!")
		s.finds("ART?", "state-of-the-art")
		s.finds("example", "e-mail: a@example.com")
		s.finds("fullWIDTH", "ＦＵＬＬｗｉｄｔｈ")
	}},
	{"C12InvisibleCharactersMarksAndCase", func(s *suite) {
		cafe, hidden, arabic := "café Müller", "ca\u00adfe\u0301 and zero\u200bwidth", "شَمْس"
		s.putTexts(cafe, hidden, arabic, "other")
		for _, query := range []string{"cafe", "CAFÉ", "cafe\u0301", "ca\u00adfé"} {
			s.finds(query, cafe, hidden)
		}
		for _, query := range []string{"muller", "Müller", "MU\u0308LLER"} {
			s.finds(query, cafe)
		}
		s.finds("zerowidth", hidden)
		s.finds("شمس", arabic)
		s.finds("شَمْس", arabic)
		s.same("best hit of both", s.keyword("cafe muller", 1, store.AnyLevel()), []string{cafe})
	}},
	{"C13NamesWithSigns", func(s *suite) {
		texts := map[string]string{
			"C++": "written in C++", "C#": "or rather C#.", "F#": "and F# too", ".NET": "the .NET runtime", "v1.2.10": "since v1.2.10",
			"ERR_CONN_RESET": "fails with ERR_CONN_RESET", "0x80070005": "code 0x80070005", "max_retry_count": "set max_retry_count",
			"R&D": "spent on R&D",
		}
		var all []string
		for _, text := range texts {
			all = append(all, text)
		}
		s.putTexts(append(all, "plain C", "an err or a retry")...)
		for name, text := range texts {
			for _, query := range []string{name, strings.ToLower(name)} {
				s.same("best hit of "+query, s.keyword(query, 1, store.AnyLevel()), []string{text})
			}
		}
		for _, alone := range []string{"C++", "C#", "F#", ".NET", "0x80070005"} {
			s.finds(alone, texts[alone])
		}
		for part, name := range map[string]string{
			"net": ".NET", "1.2.10": "v1.2.10", "v1": "v1.2.10", "conn": "ERR_CONN_RESET", "80070005": "0x80070005", "max": "max_retry_count",
		} {
			s.finds(part, texts[name])
		}
		s.finds("retry", texts["max_retry_count"], "an err or a retry")
		s.finds("c", "plain C", texts["C++"], texts["C#"])
	}},
	{"RareWordBesideACommonOne", func(s *suite) {
		var nodes []tree.Node
		for i, text := range numbered("leaf %d", 5000) {
			nodes = append(nodes, s.leaf(fmt.Sprintf("doc-%d", i/100), i%100, text))
		}
		s.put(nodes...)
		for _, rare := range []string{"77", "0", "4999", "1234"} {
			got := s.keyword("leaf "+rare, 3, store.AnyLevel())
			s.same("number of hits", len(got), 3)
			s.same("best hit", got[0], "leaf "+rare)
		}
		got := s.keyword("leaf 77", 3, store.AnyLevel().OfDocument("doc-0"))
		s.same("best hit in its document", got[0], "leaf 77")
		got = s.keyword("leaf 77", 3, store.AnyLevel().OfDocument("doc-1"))
		s.same("number of hits in another document", len(got), 3)
	}},
	{"Chinese", func(s *suite) {
		lung, rust := "肺癌的早期症状包括持续咳嗽。", "所有权是 Rust 最独特的特性。"
		s.putTexts(lung, rust, "无关的句子")
		s.finds("早期症状", lung)
		s.finds("肺癌", lung)
		s.finds("所有权", rust)
		s.finds("rust", rust)
		s.finds("癌", lung)
	}},
	{"Japanese", func(s *suite) {
		cat, tokyo := "吾輩は猫である。名前はまだ無い。", "東京タワーへ行きました。"
		s.putTexts(cat, tokyo)
		s.finds("名前", cat)
		s.finds("猫", cat)
		s.finds("ﾀﾜｰ", tokyo) // half width
	}},
	{"Thai", func(s *suite) {
		cancer, weather := "มะเร็งปอดระยะเริ่มต้น", "วันนี้อากาศดีมาก"
		s.putTexts(cancer, weather)
		s.same("best hit", s.keyword("มะเร็ง", 1, store.AnyLevel()), []string{cancer})
		s.same("best hit", s.keyword("อากาศ", 1, store.AnyLevel()), []string{weather})
	}},
	{"KoreanRussianHindiArabic", func(s *suite) {
		texts := []string{"한국어 문장입니다", "Привет, мир", "हिन्दी में वाक्य", "جملة باللغة العربية"}
		s.putTexts(texts...)
		for i, query := range []string{"한국어", "МИР", "वाक्य", "العربية"} {
			s.same("best hit of "+query, s.keyword(query, 1, store.AnyLevel()), []string{texts[i]})
		}
	}},
	{"OperatorsArePlainText", func(s *suite) {
		s.putTexts("alpha beta", "gamma", "not near or and")
		for _, query := range []string{
			`alpha NOT beta`, `"alpha`, `alpha"`, `alpha*`, `text:alpha`, `^alpha`, `alpha + beta`, `(alpha`, `NEAR(alpha beta)`,
			`{text} : alpha`, `alpha^5`, `-alpha`, `alpha'; DROP TABLE nodes; --`, `alpha\`, "alpha\x00", `%alpha%`, `alpha~1`, `[alpha TO z]`,
		} {
			got := s.keyword(query, 10, store.AnyLevel())
			if !slices.Contains(got, "alpha beta") {
				s.Errorf("Keyword(%q) found %q, want \"alpha beta\" among them", query, got)
			}
			if slices.Contains(got, "gamma") {
				s.Errorf("Keyword(%q) found \"gamma\"", query)
			}
		}
		s.same("a prefix is no word", s.keyword("alph*", 10, store.AnyLevel()), []string{})
		s.same("texts are still there", s.count(store.AnyLevel()), 3)
	}},
	{"NoWords", func(s *suite) {
		s.putTexts("alpha", "")
		for _, query := range []string{"", " ", "?!", `""`, "*"} {
			s.same(fmt.Sprintf("hits of %q", query), s.keyword(query, 10, store.AnyLevel()), []string{})
		}
	}},
	{"LongQuery", func(s *suite) {
		s.putTexts("needle in here", "hay")
		query := strings.Join(numbered("filler%d", 3000), " ") + " needle"
		s.same("hits", s.keyword(query, 5, store.AnyLevel()), []string{"needle in here"})
	}},
	{"Filters", func(s *suite) {
		nodes := s.library()
		for name, f := range filters() {
			want := kept(nodes, func(n *tree.Node) bool { return f.keeps(n) && n.Died != tree.Deleted })
			for _, limit := range []int{2, 100} {
				got := s.keyword("leaf summary the", limit, f.filter)
				s.same("number of hits of "+name, len(got), min(limit, len(want)))
				for _, text := range got {
					if !slices.ContainsFunc(want, func(n tree.Node) bool { return n.Text == text }) {
						s.Errorf("%s: found %q", name, text)
					}
				}
			}
		}
	}},
	{"SelectiveFilterAmongManyMatches", func(s *suite) {
		var nodes []tree.Node
		for i := range 800 {
			nodes = append(nodes, s.leaf(fmt.Sprintf("doc-%d", i), 0, "word word word"))
		}
		nodes = append(nodes, s.leaf("wanted", 0, "a word in the one document that is asked for, among many others"))
		s.put(nodes...)
		s.same("hits", s.keyword("word", 5, store.AnyLevel().OfDocument("wanted")), []string{nodes[800].Text})
	}},
	{"TiesById", func(s *suite) {
		var nodes []tree.Node
		for i := range 30 {
			nodes = append(nodes, s.leaf(fmt.Sprintf("doc-%d", i), i, "equal text"))
		}
		s.put(nodes...)
		slices.SortFunc(nodes, func(a, b tree.Node) int { return a.ID.Compare(b.ID) })
		hits, err := s.store.Keyword(s.Context(), s.corpus, store.Query{Text: "equal", Limit: 7, Filter: store.AnyLevel()})
		if err != nil {
			s.Fatal(err)
		}
		var got []tree.ID
		for _, h := range hits {
			got = append(got, h.Node.ID)
		}
		s.same("ids", got, idsOf(nodes[:7]))
	}},
	{"BadQueries", func(s *suite) {
		s.putTexts("alpha")
		for _, limit := range []int{0, -1} {
			if _, err := s.store.Keyword(s.Context(), s.corpus, store.Query{Text: "alpha", Limit: limit}); !errors.Is(err, store.ErrInvalid) {
				s.Errorf("Keyword with limit %d: %v, want ErrInvalid", limit, err)
			}
		}
	}},
}
