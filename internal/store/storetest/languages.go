package storetest

import (
	"fmt"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// languages are 22 languages in their scripts, each with a sentence, a word of it, and the word as people type it who leave out marks
// or capitals.
var languages = []struct{ name, text, word, typed string }{
	{"English", "The heron stands in shallow water.", "Heron", "heron"},
	{"German", "Die Bäume am großen Fluß blühen früh.", "Bäume", "baume"},
	{"French", "L'élève préfère les forêts enneigées.", "forêts", "forets"},
	{"Spanish", "El niño miró la montaña nevada.", "montaña", "montana"},
	{"Portuguese", "A população da região não dorme.", "população", "populacao"},
	{"Polish", "Żółta łódź płynie po jeziorze.", "łódź", "lodz"},
	{"Czech", "Příliš žluťoučký kůň úpěl.", "žluťoučký", "zlutoucky"},
	{"Turkish", "Irmağın kıyısında çiçekler açtı.", "çiçekler", "cicekler"},
	{"Vietnamese", "Người dân trồng lúa ở đồng bằng.", "đồng", "dong"},
	{"Finnish", "Järvellä soutaa yksinäinen mies.", "yksinäinen", "yksinainen"},
	{"Russian", "Чёрный журавль живёт у реки.", "Чёрный", "черный"},
	{"Ukrainian", "Їжак спить під деревом.", "Їжак", "їжак"},
	{"Greek", "Η θάλασσα είναι ήρεμη σήμερα.", "θάλασσα", "θαλασσα"},
	{"Hebrew", "הַשֶּׁמֶשׁ זָרְחָה עַל הַיָּם.", "הַיָּם", "הים"},
	{"Arabic", "اَلْكِتَابُ على الطاولة الكبيرة.", "اَلْكِتَابُ", "الكتاب"},
	{"Persian", "پرنده\u200cها در آسمان پرواز می\u200cکنند.", "آسمان", "آسمان"},
	{"Hindi", "पक्षी नदी के किनारे बैठा है।", "किनारे", "किनारे"},
	{"Bengali", "নদীর ধারে পাখি বসে আছে।", "পাখি", "পাখি"},
	{"Thai", "นกกระสายืนอยู่ในน้ำตื้น", "น้ำตื้น", "น้ำตื้น"},
	{"Chinese", "白鹭站在浅水中等待鱼。", "浅水", "浅水"},
	{"Japanese", "さぎは浅瀬に立ってガラスのように静かです。", "ガラス", "ガラス"},
	{"Korean", "왜가리가 얕은 물에 서 있다.", "왜가리가", "왜가리가"},
}

// Languages holds keyword search to find a leaf of any language by a word of it, whatever the normal form of text and query. It is apart
// from the contract, since the store in memory knows plainer words.
func Languages(t *testing.T, st store.Store) {
	s := &suite{T: t, store: st, corpus: "languages"}
	var nodes []tree.Node
	for i, l := range languages {
		nodes = append(nodes, s.leaf("composed", i, norm.NFC.String(l.text)), s.leaf("decomposed", i, norm.NFD.String(l.text)))
	}
	s.put(nodes...)
	for i, l := range languages {
		for form, query := range map[string]string{
			"as written": l.word, "composed": norm.NFC.String(l.word), "decomposed": norm.NFD.String(l.word), "typed": l.typed, "typed, decomposed": norm.NFD.String(l.typed),
		} {
			hits, err := s.store.Keyword(s.Context(), s.corpus, store.Query{Text: query, Limit: 10, Filter: store.AnyLevel()})
			if err != nil {
				s.Fatal(err)
			}
			found := map[string]bool{}
			for _, h := range hits {
				if h.Node.ChunkIndex == i {
					found[h.Node.DocumentID] = true
				}
			}
			s.same(fmt.Sprintf("%s, %s %q", l.name, form, query), found, map[string]bool{"composed": true, "decomposed": true})
		}
	}
}
