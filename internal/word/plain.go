package word

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// optionalMarks are the marks that a reader types or leaves out: accents of Latin, Greek and Cyrillic, the vowel signs of Hebrew,
// Arabic and Syriac, and the dots below that Indic scripts write for foreign sounds. Marks that make another letter, such as the
// voiced marks of kana or the vowel signs of Hindi and Thai, stay.
var optionalMarks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0300, 0x036f, 1}, {0x0483, 0x0487, 1}, {0x0591, 0x05bd, 1}, {0x05bf, 0x05bf, 1}, {0x05c1, 0x05c2, 1}, {0x05c4, 0x05c5, 1},
		{0x05c7, 0x05c7, 1}, {0x0610, 0x061a, 1}, {0x0640, 0x0640, 1}, {0x064b, 0x065f, 1}, {0x0670, 0x0670, 1}, {0x06d6, 0x06dc, 1},
		{0x06df, 0x06e4, 1}, {0x06e7, 0x06e8, 1}, {0x06ea, 0x06ed, 1}, {0x0711, 0x0711, 1}, {0x0730, 0x074a, 1}, {0x093c, 0x093c, 1},
		{0x09bc, 0x09bc, 1}, {0x0a3c, 0x0a3c, 1}, {0x0abc, 0x0abc, 1}, {0x0b3c, 0x0b3c, 1}, {0x1ab0, 0x1aff, 1}, {0x1dc0, 0x1dff, 1},
		{0x20d0, 0x20f0, 1}, {0xfe20, 0xfe2f, 1},
	},
}

// invisible are the characters that are not seen and not of the category Cf: joiners, variation selectors, fillers.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x034f, 0x034f, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1}, {0x180b, 0x180f, 1}, {0x3164, 0x3164, 1}, {0xfe00, 0xfe0f, 1},
		{0xffa0, 0xffa0, 1},
	},
	R32: []unicode.Range32{{0xe0100, 0xe01ef, 1}},
}

// dropped reports whether a rune takes no part in comparing words: soft hyphens, zero-width characters, marks of direction, optional
// marks, and the stroke that stretches Arabic words.
func dropped(r rune) bool {
	return r >= 0xad && unicode.In(r, optionalMarks, unicode.Cf, invisible)
}

// bare are letters whose stroke or ligature is no mark by Unicode's tables, and the sharp of music, which some write after C and F.
var bare = map[rune]string{'ø': "o", 'ł': "l", 'đ': "d", 'ħ': "h", 'ŧ': "t", 'ı': "i", 'æ': "ae", 'œ': "oe", '♯': "#"}

// plain brings a text into the form in which words are compared: compatibility composition, full case folding, and without what is
// not seen and what may be left out.
func plain(text string) string {
	if IsASCII(text) {
		return strings.ToLower(text)
	}
	// What isn't seen is taken out first too, so that it parts no letter from its marks.
	text = fold(strings.Map(func(r rune) rune {
		if r >= 0xad && unicode.In(r, unicode.Cf, invisible) {
			return -1
		}
		return r
	}, text))
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		out = appendPlain(out, r)
	}
	return string(out)
}

func appendPlain(out []byte, r rune) []byte {
	if dropped(r) {
		return out
	}
	if s, ok := bare[r]; ok {
		return append(out, s...)
	}
	var one [utf8.UTFMax]byte
	size := utf8.EncodeRune(one[:], r)
	parts := norm.NFD.Properties(one[:size]).Decomposition()
	if parts == nil {
		return append(out, one[:size]...)
	}
	var kept []byte
	whole := true
	for _, p := range string(parts) {
		if dropped(p) {
			whole = false
		} else {
			kept = appendBare(kept, p)
		}
	}
	if whole {
		return append(out, one[:size]...)
	}
	return norm.NFC.Append(out, kept...)
}

func appendBare(out []byte, r rune) []byte {
	if s, ok := bare[r]; ok {
		return append(out, s...)
	}
	return utf8.AppendRune(out, r)
}
