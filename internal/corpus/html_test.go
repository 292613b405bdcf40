package corpus

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// htmlTexts holds pages to their texts.
func htmlTexts(t *testing.T, pages map[string]string) {
	t.Helper()
	for page, want := range pages {
		got, err := readHTML([]byte(page))
		if err != nil {
			t.Errorf("%q: %v", page, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.200q (-want +got)\n%s", page, diff)
		}
	}
}

// TestC1Encoding: valid UTF-8 is UTF-8, a late declaration counts, and no byte order mark is text.
func TestC1Encoding(t *testing.T) {
	late := "<html><head><!--" + strings.Repeat("x", 2000) + "--><style>" + strings.Repeat("p{}", 500) + "</style>"
	utf16 := func(order func(byte) []byte, text string) string {
		var b []byte
		for _, c := range []byte(text) {
			b = append(b, order(c)...)
		}
		return string(b)
	}
	little, big := func(c byte) []byte { return []byte{c, 0} }, func(c byte) []byte { return []byte{0, c} }
	htmlTexts(t, map[string]string{
		late + "<meta charset=utf-8></head><p>Prüfung</p>":                                                          "Prüfung",
		late + "</head><p>Prüfung</p>":                                                                              "Prüfung",
		late + "<meta charset=iso-8859-1></head><p>Prüfung</p>":                                                     "Prüfung", // it says what it isn't
		late + "<meta charset=iso-8859-2></head><p>Pr\xb1g</p>":                                                     "Prąg",
		late + "<meta http-equiv=Content-Type content='text/html; charset=windows-1251'></head><p>\xcf\xf0\xe8</p>": "При",
		"<?xml version='1.0' encoding='iso-8859-2'?>\n<html><p>Pr\xb1g</p></html>":                                  "Prąg",
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?><html><p>Prüfung</p></html>":                                     "Prüfung",
		"\ufeff<p>Pr\u00fcfung</p>":                                                                                 "Prüfung",
		"\ufeff\ufeff<p>\ufeffPrüfung</p>":                                                                          "Prüfung",
		"\ufeff<?xml version='1.0'?><p>Prüfung":                                                                     "Prüfung",
		"\xff\xfe" + utf16(little, "<p>Plain</p>"):                                                                  "Plain",
		"\xfe\xff" + utf16(big, "<p>Plain</p>"):                                                                     "Plain",
		utf16(little, "<p>Plain</p>"):                                                                               "Plain",
		"<p>caf\xe9 cr\xe8me</p>":                                                                                   "café crème",
		"<p>Prüfung, größer, öfter, ärger, übel \xe9 und Süßes</p>":                                                 "Prüfung, größer, öfter, ärger, übel \ufffd und Süßes",
		"<meta charset=utf-16><p>Prüfung</p>":                                                                       "Prüfung",
		"<meta charset=iso-2022-jp><p>\x1b$BF|K\\\x1b(B</p>":                                                        "日本",
		"<meta charset=nonsense><p>caf\xe9</p>":                                                                     "café",
	})
}

// TestC2SelfClosing: an element that ends itself swallows nothing.
func TestC2SelfClosing(t *testing.T) {
	const xhtml = `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head>`
	htmlTexts(t, map[string]string{
		xhtml + `<title/></head><body><p>Kept.</p></body></html>`:                                      "Kept.",
		xhtml + `<script src="a.js"/><style/></head><body><p>Kept.</p></body></html>`:                  "Kept.",
		xhtml + `</head><body><iframe/><textarea/><p>Kept.</p><select/><nav/><div/>Too.</body></html>`: "Kept.\n\nToo.",
		`<title/><p>Kept.</p>`:                                       "Kept.",
		`<script src=a.js /><p>Kept.</p><script>no()</script>`:       "Kept.",
		`<script src="a.js"/></script><p>Kept.</p>`:                  "Kept.",
		`<iframe src=x /><p>Kept.</p>`:                               "Kept.",
		`<title>Named</title><p>Kept.</p><svg><title/></svg>`:        "Named\n\nKept.",
		`<title>Never ends <p>Kept.</p>`:                             "Never ends\n\nKept.",
		`<nav>Menu <p>Kept, as nothing ends it.</p>`:                 "Menu\n\nKept, as nothing ends it.",
		`<p>One<select><option>a<option>b</select></p><p>Two</p>`:    "One\n\nTwo",
		`<p hidden>secret<p>Kept.</p><li hidden>x<li>y`:              "Kept.\n\n- y",
		`<div><p hidden>secret</div>Kept.`:                           "Kept.",
		`<td hidden>x<td>y`:                                          "y",
		`<script>if (a < b) document.write("<p>no</p>")</script>Yes`: "Yes",
	})
}

// TestC3Buttons: questions stand in buttons.
func TestC3Buttons(t *testing.T) {
	htmlTexts(t, map[string]string{
		`<h3><button aria-expanded=false>How do I <b>pay</b>?</button></h3><div>By card.</div>`: "How do I pay?\n\nBy card.",
		`<details><summary>More</summary>Text.</details>`:                                       "More\n\nText.",
	})
}

// TestC4Tables: a table that lays out is blocks, lines of code stay lines, their numbers go.
func TestC4Tables(t *testing.T) {
	htmlTexts(t, map[string]string{
		`<table><tr><td><h1>Head</h1><p>One.</p><p>Two.</p></td><td><p>Side.</p></td></tr></table>After`: "Head\n\nOne.\n\nTwo.\n\nSide.\n\nAfter",
		`<table class=highlighttable><tr><td class=linenos><div class=linenodiv><pre>1
2</pre></div></td><td class=code><div><pre>if x:
    y()</pre></div></td></tr></table>`: "if x:\n    y()",
		"<table><tr><td><pre>1\n2\n3</pre></td><td><pre>a\n  b\nc</pre></td></tr></table>":                                                                   "a\n  b\nc",
		"<table><tr><td class=blob-num data-line-number=1></td><td class=blob-code>if x:</td></tr><tr><td class=blob-num></td><td>    y()</td></tr></table>": "if x:\n    y()",
		"<table><tr><td class=hljs-ln-numbers>1</td><td>a</td></tr><tr><td class=hljs-ln-numbers>2</td><td>  b</td></tr></table>z":                           "a\n  b\n\nz",
		"<pre><span class=lineno>1 </span>a = 1\n<span class=lineno>2 </span>b = 2</pre>":                                                                    "a = 1\nb = 2",
		"<table><tr><td>Year<td>Number<tr><td>1<td>2<tr><td>2<td>3</table>":                                                                                  "| Year | Number |\n| 1 | 2 |\n| 2 | 3 |",
		"<table><tr><td><p>One</p><td><p>1</p></table>":                                                                                                      "| One | 1 |",
		"<table><tr><td>line one<br>line two</table>":                                                                                                        "line one\nline two",
		"<table><tr><td>A<table><tr><td>B<td>C</table>D<td>E</table>":                                                                                        "A\n\n| B | C |\n\nD\n\nE",
		"<p>a<pre>x\n\n  y\n</pre>b": "a\n\nx\n\n  y\n\n\nb",
	})
}

// TestC5Inline: what is raised, deleted, numbered, a formula, an image or spans rows keeps its meaning.
func TestC5Inline(t *testing.T) {
	htmlTexts(t, map[string]string{
		`10<sup>23</sup> and 10<sup>-3</sup> m/s<sup>2</sup>`:                        "10^23 and 10^-3 m/s^2",
		`x<sup>n+1</sup>, e<sup>i<i>x</i></sup>, (a+b)<sup>2</sup>`:                  "x^(n+1), eix, (a+b)^2",
		`the 1<sup>st</sup> of Foo<sup>TM</sup> text<sup><a href="#1">[1]</a></sup>`: "the 1st of FooTM text[1]",
		`H<sub>2</sub>O`: "H2O",
		`costs <del>20</del> <ins>15</ins> <s>old</s><strike>older</strike>`: "costs 15",
		`<ol start=5><li>e<li>f<li value=9>g<li>h</ol>`:                      "5. e\n6. f\n9. g\n10. h",
		`<ol start=0><li>zero</ol>`:                                          "0. zero",
		`so <math alttext="E=mc^2"><mi>E</mi></math>.`:                       "so E=mc^2.",
		`so <math><semantics><mi>E</mi><annotation encoding="application/x-tex">E=mc^2</annotation></semantics></math>.`: "so E=mc^2.",
		`so <math><mi>E</mi><mo>=</mo><mn>1</mn></math>.`:                                                                "so E=1.",
		`<script type="math/tex">a^2</script>`:                                                                           "a^2",
		`<p>See <img src=x alt="a red kite">here</p><img alt=""><img src=y>`:                                             "See a red kite here",
		`<table><tr><th>A<th>B<tr><td rowspan=2>x<td>1<tr><td>2<tr><td>y<td>3</table>`:                                   "| A | B |\n| x | 1 |\n| x | 2 |\n| y | 3 |",
		`<table><tr><td colspan=2>wide<td>c<tr><td>1<td>2<td>3</table>`:                                                  "| wide |  | c |\n| 1 | 2 | 3 |",
	})
}

// TestC6AnyNesting: no page is too deep to be read, in little memory and time. It bounds A5 too.
func TestC6AnyNesting(t *testing.T) {
	for name, page := range map[string]string{
		"divs":     strings.Repeat("<div>", 600) + "Deep." + strings.Repeat("</div>", 600),
		"many":     strings.Repeat("<b>", 60_000) + "Deep.",
		"closed":   strings.Repeat("<i>", 30_000) + "Deep." + strings.Repeat("</x>", 30_000) + strings.Repeat("</i>", 30_000),
		"tables":   strings.Repeat("<table><tr><td>", 3000) + "Deep." + strings.Repeat("</table>", 3000),
		"lists":    strings.Repeat("<ul><li>", 3000) + "Deep.",
		"quotes":   strings.Repeat("<blockquote>", 3000) + "<p>Deep.",
		"hidden":   strings.Repeat("<div>", 3000) + "Deep." + strings.Repeat("<div hidden>", 3000),
		"scripts":  "Deep." + strings.Repeat("<script src=x />", 30_000),
		"titles":   "Deep." + strings.Repeat("<svg><title>", 30_000),
		"nothing":  "Deep." + strings.Repeat("<", 100_000),
		"spans":    "<table>" + strings.Repeat("<tr><td rowspan=1000 colspan=1000>", 30_000) + "</table>Deep.",
		"raised":   "Deep." + strings.Repeat("1<sup>2", 30_000),
		"entities": "Deep." + strings.Repeat("&", 100_000),
	} {
		text, err := readHTML([]byte(page))
		if err != nil || !strings.Contains(text, "Deep.") || len(text) > 2*len(page) {
			t.Errorf("%s: %.100q, %d bytes of %d, %v", name, text, len(text), len(page), err)
		}
	}
	page := []byte(strings.Repeat("<br>", 2<<20)) // 8 MiB
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if text, err := readHTML(page); err != nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 5*uint64(len(page)) { // allocated in all, under the race detector more than 4 times
		t.Errorf("%d MB for a page of breaks", used>>20)
	}
}

func BenchmarkHTML(b *testing.B) {
	page := []byte(strings.Repeat("<div class=x><h2>Head</h2><p>Some text with <a href='/x'>links</a> and <b>more</b> of it, as pages have it, &amp; entities.</p><ul><li>one<li>two</ul></div>\n", 10_000))
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if _, err := readHTML(page); err != nil {
			b.Fatal(err)
		}
	}
}
