package llm

import (
	"unicode"
)

// language is what a text is written in, as far as its script tells. The zero value says nothing.
type language struct {
	name   string // for the prompt
	script []*unicode.RangeTable
	latin  bool
}

// languages are told apart by their letters. Where several share a script, the passages show the model which it is.
var languages = []language{
	{name: "Chinese", script: []*unicode.RangeTable{unicode.Han}},
	{name: "Japanese", script: []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana}},
	{name: "Korean", script: []*unicode.RangeTable{unicode.Hangul}},
	{name: "the language of the passages, in Cyrillic letters", script: []*unicode.RangeTable{unicode.Cyrillic}},
	{name: "the language of the passages, in Arabic letters", script: []*unicode.RangeTable{unicode.Arabic}},
	{name: "Greek", script: []*unicode.RangeTable{unicode.Greek}},
	{name: "the language of the passages, in Hebrew letters", script: []*unicode.RangeTable{unicode.Hebrew}},
	{name: "Thai", script: []*unicode.RangeTable{unicode.Thai}},
	{name: "the language of the passages, in Devanagari letters", script: []*unicode.RangeTable{unicode.Devanagari}},
	{name: "the language of the passages, in Bengali letters", script: []*unicode.RangeTable{unicode.Bengali}},
	{name: "Tamil", script: []*unicode.RangeTable{unicode.Tamil}},
	{name: "Georgian", script: []*unicode.RangeTable{unicode.Georgian}},
	{name: "Armenian", script: []*unicode.RangeTable{unicode.Armenian}},
	{name: "the language of the passages", script: []*unicode.RangeTable{unicode.Latin}, latin: true},
}

const (
	// mostly is the share of letters that a text in a script has of it at least. Texts of other scripts quote names in Latin letters,
	// so that those want more.
	mostly, mostlyLatin = 0.55, 0.85
	// hardly is the share below which a text isn't written in a script.
	hardly = 0.25
	// fewLetters of an answer tell nothing.
	fewLetters = 20
	// kana is the share of a text's letters that make it Japanese.
	kana = 0.05
)

// languageOf tells what texts are written in.
func languageOf(texts []string) language {
	counts, letters := make([]int, len(languages)), 0
	for _, text := range texts {
		for _, r := range text {
			if !unicode.IsLetter(r) {
				continue
			}
			letters++
			for i := range languages {
				if unicode.In(r, languages[i].script...) {
					counts[i]++
				}
			}
		}
	}
	const chinese, japanese = 0, 1
	if float64(counts[japanese]-counts[chinese]) > kana*float64(letters) {
		counts[chinese] = 0
	} else {
		counts[japanese] = 0
	}
	for i, l := range languages {
		least := mostly
		if l.latin {
			least = mostlyLatin
		}
		if letters >= fewLetters && float64(counts[i]) >= least*float64(letters) {
			return l
		}
	}
	return language{}
}

// note asks for the language in a prompt. Where letters are Latin, nearly all models write what they read, and prompts stay as they are.
func (l language) note() string {
	if l.name == "" || l.latin {
		return ""
	}
	return "\n\nWrite in " + l.name + "."
}

// insist asks again.
func (l language) insist() string {
	return "\n\nThe answer must be in " + l.name + ", and in no other language."
}

// differs reports whether an answer is in another script.
func (l language) differs(answer string) bool {
	if l.name == "" {
		return false
	}
	own, letters := 0, 0
	for _, r := range answer {
		if unicode.IsLetter(r) {
			letters++
			if unicode.In(r, l.script...) {
				own++
			}
		}
	}
	return letters >= fewLetters && float64(own) < hardly*float64(letters)
}
