package corpus

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Abbreviations after whose full stop a sentence goes on, in lower case and without it. Those that often end one ("etc", "inc", "p.m") are
// left out: they go on only before a small letter, as every full stop does.
const (
	// alwaysShort is followed by a name or a word.
	alwaysShort = " mr mrs ms dr prof st sr jr rev fr hon gov gen col lt maj capt cmdr sgt cpl pvt adm pres sen rep amb messrs mme mlle mgr " +
		"e.g i.e eg ie cf vs viz al ca approx resp incl excl esp orig ed eds trans transl repr " +
		"jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri " +
		"mt ft univ dept assn bros gmbh z.b d.h u.a bzw hr fr dipl ing vgl evtl ggf sog usw p.ej sra dra ud uds av bd " +
		"т.е т.к см ср напр г ул им "
	// shortBeforeNumber is followed by a number.
	shortBeforeNumber = " no nos nr num fig figs eq eqs sec secs sect ch chap chaps art arts vol vols p pp pg para par tab app ver v c ca n ex ref refs col line item step п стр рис "
)

// abbreviated reports whether the full stop after head, before a text that starts with the rune next, is that of an abbreviation.
func abbreviated(head string, next rune) bool {
	before := strings.TrimRightFunc(head, func(r rune) bool {
		return !unicode.IsSpace(r) && !strings.ContainsRune("([{\"'“‘«/—–-:", r)
	})
	word := head[len(before):]
	if word == "" {
		return false
	}
	if enumerates(head) {
		return true
	}
	if r, size := utf8.DecodeRuneInString(word); size == len(word) && (unicode.IsUpper(r) || unicode.IsLower(r)) {
		return true // an initial, or a short form: "J. Doe", "Smith v. Jones"
	}
	if initials(word) {
		return true
	}
	key := " " + strings.ToLower(word) + " "
	return strings.Contains(alwaysShort, key) || unicode.IsDigit(next) && strings.Contains(shortBeforeNumber, key)
}

// initials reports whether a word is single letters with full stops between them: "U.S", "e.g", "T.S".
func initials(word string) bool {
	letters := 0
	for part := range strings.SplitSeq(word, ".") {
		r, size := utf8.DecodeRuneInString(part)
		if size != len(part) || !unicode.IsLetter(r) {
			return false
		}
		letters++
	}
	return letters >= 2
}

// enumerates reports whether a whole sentence so far is the number of what follows: "1", "(iv)", "2.3", "A".
func enumerates(head string) bool {
	head = strings.Trim(strings.TrimSpace(head), "()[]")
	if head == "" || len(head) > 8 {
		return false
	}
	for _, r := range head {
		if !unicode.IsDigit(r) && r != '.' && !strings.ContainsRune("ivxlcIVXLC", r) {
			return len(head) == 1
		}
	}
	return true
}
