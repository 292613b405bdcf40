package answer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// split cuts a text, written in pieces of a size.
func split(text string, size int) []string {
	var s splitter
	var out []string
	for rest := []rune(text); len(rest) > 0; {
		n := min(size, len(rest))
		out = append(out, s.write(string(rest[:n]))...)
		rest = rest[n:]
	}
	if rest := s.rest(); rest != "" {
		out = append(out, rest)
	}
	return out
}

// TestSplit: citations belong to the sentence that they follow, whichever side of the full stop they stand on.
func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"Kites circle [1]. Owls listen [2].":                {"Kites circle [1]. ", "Owls listen [2]."},
		"Kites circle. [1] Owls listen. [2]":                {"Kites circle. [1] ", "Owls listen. [2]"},
		"Kites circle.[1] Owls listen.[2][3]":               {"Kites circle.[1] ", "Owls listen.[2][3]"},
		"Kites circle [1]. [2] Owls listen.":                {"Kites circle [1]. ", "[2] Owls listen."},
		"[1] Kites circle. [2] Owls listen.":                {"[1] Kites circle. ", "[2] Owls listen."},
		"Kites circle. [1] [2] Owls listen.":                {"Kites circle. [1] [2] ", "Owls listen."},
		"Kites circle.\n\n[1]\n\nOwls listen.":              {"Kites circle.\n\n[1]\n\n", "Owls listen."},
		"Kites circle [1].\n[2]\nOwls listen.":              {"Kites circle [1].\n[2]\n", "Owls listen."},
		"Kites circle.\n[1] Owls listen.":                   {"Kites circle.\n", "[1] Owls listen."},
		"As Dr. Heron says [Passage 1], 3.5 m is deep. Oh!": {"As Dr. Heron says [Passage 1], 3.5 m is deep. ", "Oh!"},
		"1. Kites circle [1].\n2. Owls listen [2].":         {"1. Kites circle [1].\n", "2. Owls listen [2]."},
		"- Kites [1]\n- Owls [2]\n":                         {"- Kites [1]\n", "- Owls [2]\n"},
		"苍鹭站在浅水里[1]。猫头鹰听[2]。":                               {"苍鹭站在浅水里[1]。", "猫头鹰听[2]。"},
		"苍鹭站在浅水里。【1】猫头鹰听。【2】":                               {"苍鹭站在浅水里。【1】", "猫头鹰听。【2】"},
		"95 [1].": {"95 [1]."},
		"":        nil,
	} {
		for _, size := range []int{1, 2, 3, 5, 8, 1000} {
			if diff := cmp.Diff(want, split(text, size)); diff != "" {
				t.Errorf("%q by %d (-want +got):\n%s", text, size, diff)
			}
		}
	}
}

// TestSplitProperties: whatever the pieces, the sentences are the same, and joined they are the text.
func TestSplitProperties(t *testing.T) {
	words := rapid.SampledFrom([]string{
		"Kites", "circle", "owls", "e.g.", "Dr.", "3.5", "1.", "[1]", "[2][3]", "[1,", "2]", "[", "]", "【1】", "[Passage 4]", ".", "!", "?\"", ":",
		"\n", "\n\n", " ", "  ", "苍鹭。", "U.S.", "(see", "[9])", "—", "…", "Über", "\u00a0", "- ", "95", "[^1]", "A.[1]", "B",
	})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for _, w := range rapid.SliceOfN(words, 0, 40).Draw(t, "words") {
			b.WriteString(w)
			if rapid.Bool().Draw(t, "space") {
				b.WriteByte(' ')
			}
		}
		text := b.String()
		whole := split(text, 1<<20)
		if got := strings.Join(whole, ""); got != text {
			t.Fatalf("%q became %q", text, got)
		}
		size := rapid.IntRange(1, 9).Draw(t, "size")
		if diff := cmp.Diff(whole, split(text, size)); diff != "" {
			t.Fatalf("%q in pieces of %d (-whole +pieces):\n%s", text, size, diff)
		}
	})
}

func TestCited(t *testing.T) {
	for text, want := range map[string]struct {
		numbers []int
		exist   bool
	}{
		"a [1].":                          {[]int{1}, true},
		"a [3][1] b [1].":                 {[]int{1, 3}, true},
		"a [1, 3].":                       {[]int{1, 3}, true},
		"a [1-3].":                        {[]int{1, 2, 3}, true},
		"a [2–3, 1].":                     {[]int{1, 2, 3}, true},
		"a [Passage 2 and passage 3].":    {[]int{2, 3}, true},
		"a [^2] b 【3†source】 c ［1］":       {[]int{1, 2, 3}, true},
		"a [1; 2].":                       {[]int{1, 2}, true},
		"a [4].":                          {[]int{}, false}, // of three
		"a [0].":                          {[]int{}, false},
		"a [1][7].":                       {[]int{1}, false},
		"a [2-9].":                        {[]int{2, 3}, false},
		"a [3-1].":                        {[]int{}, false},
		"a [99999999999999999999].":       {[]int{}, true}, // no citation
		"a [x], [see 1], [1.5], (1), [].": {[]int{}, true},
		"none":                            {[]int{}, true},
	} {
		numbers, exist := cited(text, 3)
		if diff := cmp.Diff(want.numbers, numbers); diff != "" || exist != want.exist {
			t.Errorf("%q: %v (-want +got):\n%s", text, exist, diff)
		}
	}
}

// TestJudge: a sentence is of the corpus if it cites, and only what exists.
func TestJudge(t *testing.T) {
	for raw, want := range map[string]Sentence{
		" Kites circle [2]. ":       {Text: "Kites circle [2].", Citations: []int{2}, FromCorpus: true, By: ByModel},
		"Kites circle.":             {Text: "Kites circle.", Citations: []int{}},
		"Kites circle [3].":         {Text: "Kites circle [3].", Citations: []int{}},
		"Kites circle [1][3].":      {Text: "Kites circle [1][3].", Citations: []int{1}},
		"\x1b[31mRed\x1b[0m [1].\r": {Text: "Red [1].", Citations: []int{1}, FromCorpus: true, By: ByModel},
	} {
		if diff := cmp.Diff(want, judge(raw, 2)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", raw, diff)
		}
	}
}
