package corpus

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shared is the counter of the tests: its cache is what makes them quick.
var shared = NewCounter()

// solid returns a text without its white space.
func solid(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// checkChunks holds chunks against what Split promises for every text.
func checkChunks(t fataler, text string, budget int, chunks []Chunk) {
	var joined strings.Builder
	end := 0
	for i, c := range chunks {
		switch {
		case c.Start < end || c.End <= c.Start || c.End > len(text):
			t.Fatalf("chunk %d is [%d, %d) after %d of %d bytes", i, c.Start, c.End, end, len(text))
		case c.Text != text[c.Start:c.End]:
			t.Fatalf("chunk %d: text %q is not text[%d:%d]", i, c.Text, c.Start, c.End)
		case strings.TrimSpace(c.Text) == "":
			t.Fatalf("chunk %d is white space: %q", i, c.Text)
		case c.Tokens != shared.Count(c.Text):
			t.Fatalf("chunk %d says %d tokens, counted %d", i, c.Tokens, shared.Count(c.Text))
		case c.Tokens > budget && utf8.RuneCountInString(strings.TrimSpace(c.Text)) > 1:
			t.Fatalf("chunk %d has %d tokens, budget %d: %q", i, c.Tokens, budget, c.Text)
		}
		end = c.End
		joined.WriteString(c.Text)
	}
	if got, want := solid(joined.String()), solid(text); got != want {
		t.Fatalf("the chunks hold other text than was cut\n got %q\nwant %q", got, want)
	}
}

// pieces are what texts for the property are put together from: every script and every kind of block, whole and broken.
var pieces = []string{
	"The quick brown fox jumps over the lazy dog. ", "It cost $3.50, i.e. too much! ", "Dr. Smith, M.D., of the U.S. Army asked: “Why?” ",
	"See https://example.com/a.b?c=d&e=f#g. ", "word ", "word", "x", ". ", "!", "?", "...", "…", "\"", "'", "(", ")",
	"我们先定义一下字符串。", "他说：“你好！”然后走了；", "字符串", "今日は、世界。「はい。」", "यह एक वाक्य है। ", "هل هذا سؤال؟ ", "نعم، هذا جواب. ",
	"ภาษาไทยไม่มีเครื่องหมายจบประโยค ", "한국어 문장입니다. ", "Это предложение. ", "Τι είναι αυτό; ", "👩‍👩‍👧‍👦", "🇩🇪", "é", "ä̈̈", "\u200d",
	"\n", "\n\n", "\r\n", "\r", "\f", "\t", " ", "    ", "\u00a0", "\u3000", "\u2028", "\u2029", "\u0085",
	"\n# Heading\n", "\nTitle\n=====\n", "\n-----\n", "\n===\nover\n===\n", "\n- item\n", "\n1. one\n2) two\n", "\n* ", "\n  continued",
	"\n```go\nfunc f() {}\n```\n", "\n```\n", "\n~~~\n", "\nExample::\n\n    code = 1\n    more = 2\n\n", "\n| a | b |\n|---|---|\n| 1 | 2 |\n",
	"\n== ==\na  b\n== ==\n\n", "\n+--+\n|x |\n+--+\n", "\nKey: value\nOther: thing\n", "\n>>> 1 + 1\n2\n", "\x00", "\ufeff", "a,b;c:d ", strings.Repeat("长", 40),
	strings.Repeat("long", 60), strings.Repeat("-", 40), strings.Repeat(". ", 40), strings.Repeat(" ", 300), strings.Repeat(")", 300),
}

func TestChunksHoldTheTextAndTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 80).Draw(t, "text"), "")
		budget := rapid.SampledFrom([]int{1, 2, 3, 7, 20, 100}).Draw(t, "budget")
		checkChunks(t, text, budget, Split(text, budget, shared))
	})
}

func FuzzSplit(f *testing.F) {
	f.Add(strings.Join(pieces, ""), 20)
	for _, p := range pieces {
		f.Add(p+p, 5)
	}
	f.Fuzz(func(t *testing.T, text string, budget int) {
		if !utf8.ValidString(text) || len(text) > 1<<16 {
			return
		}
		budget = max(1, budget%200)
		checkChunks(t, text, budget, Split(text, budget, shared))
	})
}

// sentencesWithTraps are single sentences, by the grammar of their language, that naive rules cut.
var sentencesWithTraps = []string{
	"The dog sleeps.", "Dr. Smith and Prof. Jones met Mrs. O'Hara at St. Mary's on Jan. 5.", "It weighs 3.14 kg, i.e. more than v1.2.3 of the U.S. Army.",
	"J. R. R. Tolkien wrote it.", "See Fig. 3 and Eq. (4) in Sec. 2.1 of Müller et al. (2019).", "He asked “Why?” and left.", "Is it so?", "What a day!",
	"Look at https://example.com/a.b?c=d&e=F.G for details.", "The file foo.Bar() calls os.Exit(1).", "Yahoo! is a company.",
	"We meet at 5 p.m. tomorrow, e.g. here.", "(This is one, too.)", "“So is this.”", "No. 5 is alive.", "Node.js 18.2 runs ASP.NET code.",
	"The D.C. Circuit ruled in Smith v. Jones.", "He paid $1.50... and left.", "Prices rose by 2.5% vs. 1.5% in Feb. 2020.",
}

func TestChunksEndAtSentenceEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(sentencesWithTraps), 1, 40).Draw(t, "sentences")
		width := rapid.SampledFrom([]int{30, 72, 1000000}).Draw(t, "width")
		perParagraph := rapid.IntRange(1, 10).Draw(t, "sentences in a paragraph")
		var text strings.Builder
		ends := map[int]bool{} // in characters that aren't white space
		n := 0
		for part := range chunkSlice(list, perParagraph) {
			for _, s := range part {
				n += len(solid(s))
				ends[n] = true
			}
			text.WriteString(wrap(strings.Join(part, " "), width) + "\n\n")
		}
		budget := rapid.SampledFrom([]int{40, 60, 100}).Draw(t, "budget")
		chunks := Split(text.String(), budget, shared)
		checkChunks(t, text.String(), budget, chunks)
		at := 0
		for _, c := range chunks {
			at += len(solid(c.Text))
			if !ends[at] {
				t.Fatalf("a chunk ends inside a sentence: %q", c.Text)
			}
		}
	})
}

func chunkSlice(list []string, n int) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for len(list) > 0 {
			k := min(n, len(list))
			if !yield(list[:k]) {
				return
			}
			list = list[k:]
		}
	}
}

// wrap breaks lines at blanks.
func wrap(s string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(s) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// In these scripts no white space need follow a sentence. The marks and who closes them are those of the scripts' own grammars.
func TestChunksEndAtSentenceEndsInEveryScript(t *testing.T) {
	for name, list := range map[string][]string{
		"Chinese":  {"我们先定义一下字符串这一术语的具体意义。", "真的吗？", "太好了！", "他说：“我不知道。”", "第一点是所有权；", "《红楼梦》是一部小说。", "价格是3.5元。", "（这也是一句。）", "[看这里！](a.html)有更多。"},
		"Japanese": {"吾輩は猫である。", "名前はまだ無い。", "「はい、そうです。」", "本当ですか？", "すごい！"},
		"Hindi":    {"यह एक वाक्य है।", "क्या यह सच है?", "वह घर गया।"},
		"Arabic":   {"هذه جملة.", "هل هذا صحيح؟", "ذهب الولد إلى البيت."},
		"Korean":   {"이것은 문장입니다.", "정말입니까?", "그는 집에 갔습니다."},
		"Russian":  {"Это предложение.", "Правда ли это?", "А. С. Пушкин родился в 1799 г. в Москве."},
	} {
		t.Run(name, func(t *testing.T) {
			sep := " "
			if name == "Chinese" || name == "Japanese" {
				sep = ""
			}
			var all []string
			ends := map[int]bool{}
			n := 0
			for i := range 60 {
				s := list[i*7%len(list)]
				all = append(all, s)
				n += len(solid(s))
				ends[n] = true
			}
			text := strings.Join(all, sep)
			chunks := Split(text, 50, shared)
			checkChunks(t, text, 50, chunks)
			at, tokens := 0, 0
			for _, c := range chunks {
				at += len(solid(c.Text))
				tokens += c.Tokens
				if !ends[at] {
					t.Errorf("a chunk ends inside a sentence: %q", c.Text)
				}
			}
			if mean := tokens / len(chunks); mean < 30 {
				t.Errorf("%d chunks of %d tokens in the mean, budget 50", len(chunks), mean)
			}
		})
	}
}

// texts returns the texts of chunks.
func texts(chunks []Chunk) []string {
	var out []string
	for _, c := range chunks {
		out = append(out, c.Text)
	}
	return out
}

func TestHeadingsStayWithWhatFollows(t *testing.T) {
	sentence := "The committee met on Monday and decided nothing of any note at all." // 14 tokens
	for name, head := range map[string]string{
		"number signs": "## Results", "underline": "Results\n-------", "overline": "=======\nResults\n=======", "line alone": "Results",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(sentence+" ", 6) + "\n\n" + head + "\n\n" + strings.Repeat(sentence+" ", 2)
			for budget := 20; budget <= 120; budget++ {
				for _, c := range Split(text, budget, shared) {
					if strings.HasSuffix(c.Text, head) {
						t.Fatalf("budget %d: a chunk ends with the heading: %q", budget, c.Text)
					}
				}
			}
		})
	}
}

func TestAHeadingEndsAFullChunk(t *testing.T) {
	a, b := strings.Repeat("Cats purr when they are content. ", 8), strings.Repeat("Dogs bark when they are alarmed. ", 8) // 8 tokens each
	text := a + "\n\n# Dogs\n\n" + b
	want := []string{strings.TrimSpace(a), "# Dogs\n\n" + strings.TrimSpace(b)}
	if diff := cmp.Diff(want, texts(Split(text, 100, shared))); diff != "" {
		t.Error(diff)
	}
}

func TestCodeAndTablesAreCutAtLines(t *testing.T) {
	lines := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"fence":      "Look. Here:\n\n```go\n" + lines("x%d := f. Call(1). Result", 40) + "```\n\nDone.",
		"literal":    "Look::\n\n" + lines("    value%d = a. b(c). D", 40) + "\nDone.",
		"directive":  ".. code-block:: python\n\n" + lines("    value%d = a. b(c). D", 40) + "\nDone.",
		"indented":   "Look.\n\n" + lines("    value%d = call(a. B);", 40) + "\nDone.",
		"table":      lines("| Cell %d. Text. | More. Text |", 40),
		"grid":       "+---+---+\n" + lines("| a. %d | B. c |", 40) + "+---+---+\n",
		"simple":     "=====  =====\nA. B   C\n=====  =====\n" + lines("Cell. %d  D. E", 40) + "=====  =====\n",
		"fields":     lines("Key: value %d. Another. Thing", 40),
		"session":    lines(">>> f(%d). G", 40),
		"bare table": "A | B\n--- | ---\n" + lines("Cell. %d | D. E", 40),
	} {
		t.Run(name, func(t *testing.T) {
			chunks := Split(text, 40, shared)
			checkChunks(t, text, 40, chunks)
			if len(chunks) < 4 {
				t.Fatalf("only %d chunks", len(chunks))
			}
			for _, c := range chunks {
				if rest := text[c.End:]; rest != "" && rest[0] != '\n' {
					t.Errorf("a chunk ends inside a line: %q, then %q", c.Text, rest[:min(20, len(rest))])
				}
			}
		})
	}
}

func TestCodeKeepsItsIndentation(t *testing.T) {
	text := "Like this::\n\n    if a:\n        b()\n        c()\n    d()\n"
	chunks := Split(text, 8, shared)
	checkChunks(t, text, 8, chunks)
	for _, c := range chunks[1:] {
		if !strings.HasPrefix(c.Text, "    ") {
			t.Errorf("%q lost its indentation", c.Text)
		}
	}
}

func TestAShortBlockIsKeptWhole(t *testing.T) {
	prose := strings.Repeat("The committee met on Monday and decided nothing. ", 5) // 10 tokens each
	code := "```python\nfor x in range(10):\n    print(x, x * x, x * x * x)\n    total += x\n    count -= x\n```"
	text := prose + "\n\n" + code
	want := []string{strings.TrimSpace(prose), code}
	if diff := cmp.Diff(want, texts(Split(text, 70, shared))); diff != "" {
		t.Error(diff)
	}
}

func TestListItemsAreUnits(t *testing.T) {
	text := "- One thing. It has two sentences.\n- Another thing. It has two, too.\n1. A third thing. Here\n   it goes on.\n2) A fourth. Short.\n(a) A fifth. Shorter.\n• A sixth. Last."
	for budget := 14; budget < 60; budget++ {
		for _, c := range Split(text, budget, shared) {
			if rest := text[c.End:]; rest != "" && rest[0] != '\n' {
				t.Fatalf("budget %d: a chunk ends inside an item: %q", budget, c.Text)
			}
		}
	}
}

// A sentence over the budget is cut after clauses; a clause over it between words; a word over it between graphemes.
func TestLongSentencesAreCutWhereTheyHurtLeast(t *testing.T) {
	for _, test := range []struct {
		name, text string
		budget     int
		ends       string // what every chunk but the last must end with, as a set of runes
		spaced     bool   // or: white space must follow every chunk
	}{
		{"clauses", strings.TrimSuffix(strings.Repeat("the first of many parts, and the next one; ", 20), "; ") + ".", 24, ",;", false},
		{"Chinese clauses", strings.TrimSuffix(strings.Repeat("这是一个非常长的句子，", 40), "，") + "。", 30, "，", false},
		{"words", strings.TrimSpace(strings.Repeat("word upon word without a mark ", 40)), 20, "", true},
		{"Thai", strings.TrimSpace(strings.Repeat("ภาษาไทยไม่มีเครื่องหมาย ", 40)), 40, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			chunks := Split(test.text, test.budget, shared)
			checkChunks(t, test.text, test.budget, chunks)
			for _, c := range chunks[:len(chunks)-1] {
				last, _ := utf8.DecodeLastRuneInString(c.Text)
				if test.ends != "" && !strings.ContainsRune(test.ends, last) {
					t.Errorf("a chunk ends inside a clause: %q", c.Text)
				}
				if test.spaced && test.text[c.End] != ' ' {
					t.Errorf("a chunk ends inside a word: %q", c.Text)
				}
			}
		})
	}
}

func TestGraphemesAreNotCut(t *testing.T) {
	family := "👩‍👩‍👧‍👦" // one grapheme, 7 runes
	text := strings.Repeat(family, 50)
	budget := 3 * shared.Count(family)
	chunks := Split(text, budget, shared)
	checkChunks(t, text, budget, chunks)
	for _, c := range chunks {
		if len(c.Text)%len(family) != 0 {
			t.Errorf("%q is not whole families", c.Text)
		}
	}
}

func TestTinyLastChunk(t *testing.T) {
	sentence := "The committee met on Monday and decided nothing at all of note today. " // 13 tokens
	for n := 2; n < 40; n++ {
		text := strings.Repeat(sentence, n) + "So ended it."
		chunks := Split(text, 60, shared)
		checkChunks(t, text, 60, chunks)
		if last := chunks[len(chunks)-1]; last.Tokens < 15 {
			t.Errorf("%d sentences: the last chunk has %d tokens: %q", n, last.Tokens, last.Text)
		}
	}
}

func TestWhiteSpaceGivesNothing(t *testing.T) {
	for _, text := range []string{"", " ", " \n\t\r\n\f \u3000\u00a0\u2028"} {
		if chunks := Split(text, 10, shared); len(chunks) != 0 {
			t.Errorf("%q gave %q", text, texts(chunks))
		}
	}
}

// Every one of these costs a quadratic algorithm minutes.
func TestHugeTextsAreCutInLinearTime(t *testing.T) {
	const n = 100_000
	for name, text := range map[string]string{
		"60,000 Han":         strings.Repeat("汉", 60_000),
		"60,000 mixed Han":   strings.Repeat("我们先定义一下字符串这一术语的具体意义吧", 3_000),
		"one word":           strings.Repeat("a", n),
		"a stop and blanks":  "Stop." + strings.Repeat(" ", n) + "Go.",
		"a stop and closers": "Stop." + strings.Repeat(")", n),
		"stops":              strings.Repeat(". ", n/2),
		"marks":              "a." + strings.Repeat("\u0301", n/10),
		"commas":             strings.Repeat("a,", n/2),
		"unclosed fences":    strings.Repeat("```\nx\n~~~~\ny\n````\n", n/60),
		"borders":            strings.Repeat("== ==\nx\n", n/8),
		"rules":              strings.Repeat("ab\n--\n---\n", n/10),
		"lines":              strings.Repeat("a\n", n/2),
		"sentences":          strings.Repeat("This is a sentence of the usual kind. ", n/38),
	} {
		chunks := Split(text, 100, shared)
		t.Logf("%s: %d chunks", name, len(chunks))
		checkChunks(t, text, 100, chunks)
	}
}

func TestSplitRefusesNoBudget(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Split took a budget of 0")
		}
	}()
	Split("text", 0, shared)
}
