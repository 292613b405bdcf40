package readers

import (
	"archive/zip"
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"
)

// tools are enough for tests: pages are their texts.
var tools = Tools{HTML: func(page []byte) (string, error) {
	return strings.TrimSpace(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(page), " ")), nil
}}

// read reads bytes by the reader with a name.
func read(t *testing.T, name string, data []byte) (Result, error) {
	t.Helper()
	r, ok := Named(name)
	if !ok {
		t.Fatalf("there is no reader %s", name)
	}
	return r.Read(t.Context(), data, tools)
}

func good(t *testing.T, name string, data []byte) Result {
	t.Helper()
	out, err := read(t, name, data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func text(t *testing.T, name string, data []byte) string {
	t.Helper()
	out := good(t, name, data)
	if len(out.Parts) != 1 {
		t.Fatalf("%s: %d parts", name, len(out.Parts))
	}
	return out.Parts[0].Text
}

// zipped makes an archive of names and contents.
func zipped(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	rels   = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">%s</Relationships>`
	office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
)

func relation(id, kind, target string) string {
	return fmt.Sprintf(`<Relationship Id="%s" Type="%s%s" Target="%s"/>`, id, office, kind, target)
}

// TestDocx: headings by style, lists, tables, notes, tracked changes, and what is drawn once.
func TestDocx(t *testing.T) {
	p := func(style, body string) string {
		if style != "" {
			style = `<w:pPr><w:pStyle w:val="` + style + `"/></w:pPr>`
		}
		return "<w:p>" + style + body + "</w:p>"
	}
	r := func(s string) string { return `<w:r><w:t xml:space="preserve">` + s + `</w:t></w:r>` }
	item := func(level int, s string) string {
		return fmt.Sprintf(`<w:p><w:pPr><w:numPr><w:ilvl w:val="%d"/><w:numId w:val="1"/></w:numPr></w:pPr>%s</w:p>`, level, r(s))
	}
	cell := func(s string) string { return "<w:tc>" + p("", r(s)) + "</w:tc>" }
	body := p("berschrift1", r("Owls")) +
		p("", r("They hunt ")+`<w:del w:id="1"><w:r><w:delText>by day</w:delText></w:r></w:del><w:ins w:id="2">`+r("by night")+`</w:ins>`+r(".")+`<w:r><w:footnoteReference w:id="2"/></w:r>`) +
		item(0, "mice") + item(1, "field mice") + item(0, "voles") +
		`<w:tbl><w:tr>` + cell("Owl") + cell("Weight | g") + `</w:tr><w:tr>` + cell("Barn") + cell("350") + `</w:tr></w:tbl>` +
		p("", `<mc:AlternateContent xmlns:mc="m"><mc:Choice>`+r("In a box.")+`</mc:Choice><mc:Fallback>`+r("In a box.")+`</mc:Fallback></mc:AlternateContent>`) +
		p("", r("One")+`<w:r><w:tab/></w:r>`+r("two")+`<w:r><w:br/></w:r>`+r("three."))
	data := zipped(t,
		"_rels/.rels", fmt.Sprintf(rels, relation("r1", "officeDocument", "word/document.xml")),
		"word/_rels/document.xml.rels", fmt.Sprintf(rels, relation("r1", "styles", "styles.xml")+relation("r2", "footnotes", "footnotes.xml")),
		"word/styles.xml", `<w:styles xmlns:w="w"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style></w:styles>`,
		"word/footnotes.xml", `<w:footnotes xmlns:w="w"><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote><w:footnote w:id="2">`+p("", r("As most do."))+`</w:footnote></w:footnotes>`,
		"word/document.xml", `<w:document xmlns:w="w"><w:body>`+body+`</w:body></w:document>`)
	want := "# Owls\n\nThey hunt by night.\n\n(As most do.)\n\n- mice\n  - field mice\n- voles\n\n| Owl | Weight \\| g |\n| --- | --- |\n| Barn | 350 |\n\nIn a box.\n\nOne two\nthree."
	if diff := cmp.Diff(want, text(t, "docx", data)); diff != "" {
		t.Error(diff)
	}
}

// TestPptx: slides come in the order of the presentation, not of their names.
func TestPptx(t *testing.T) {
	shape := func(kind string, lines ...string) string {
		s := `<p:sp><p:nvSpPr><p:nvPr><p:ph type="` + kind + `"/></p:nvPr></p:nvSpPr><p:txBody>`
		for _, l := range lines {
			s += "<a:p><a:r><a:t>" + l + "</a:t></a:r></a:p>"
		}
		return s + "</p:txBody></p:sp>"
	}
	slide := func(shapes string) string { return `<p:sld xmlns:p="p" xmlns:a="a">` + shapes + `</p:sld>` }
	data := zipped(t,
		"ppt/presentation.xml", `<p:presentation xmlns:p="p" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><p:sldIdLst><p:sldId id="1" r:id="rB"/><p:sldId id="2" r:id="rA"/></p:sldIdLst></p:presentation>`,
		"ppt/_rels/presentation.xml.rels", fmt.Sprintf(rels, relation("rA", "slide", "slides/slide1.xml")+relation("rB", "slide", "slides/slide2.xml")),
		"ppt/slides/slide1.xml", slide(shape("title", "Second")+shape("body", "one", "two")+shape("sldNum", "2")),
		"ppt/slides/slide2.xml", slide(shape("ctrTitle", "First")),
		"ppt/slides/_rels/slide1.xml.rels", fmt.Sprintf(rels, relation("n", "notesSlide", "../notesSlides/notesSlide1.xml")),
		"ppt/notesSlides/notesSlide1.xml", slide(shape("body", "Say it slowly.")))
	if diff := cmp.Diff("## First\n\n## Second\n\n- one\n- two\n\nNotes: Say it slowly.", text(t, "pptx", data)); diff != "" {
		t.Error(diff)
	}
}

// TestXlsx: each row is a leaf with the names of its columns, as they are shown.
func TestXlsx(t *testing.T) {
	f := excelize.NewFile()
	rows := [][]any{{"Birds of the yard"}, {"Owl", "Weight", "Seen"}, {"Barn", 350.5, true}, {nil, 12}, {}, {"Tawny"}}
	for i, row := range rows {
		if err := f.SetSheetRow("Sheet1", fmt.Sprintf("A%d", i+1), &row); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.NewSheet("Hidden"); err != nil {
		t.Fatal(err)
	}
	secret := []any{"a", "b"}
	if err := f.SetSheetRow("Hidden", "A1", &secret); err != nil {
		t.Fatal(err)
	}
	if err := f.SetSheetVisible("Hidden", false); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := []string{"Sheet1\nBirds of the yard", "Sheet1\nOwl: Barn\nWeight: 350.5\nSeen: TRUE", "Sheet1\nWeight: 12", "Sheet1\nOwl: Tawny"}
	if diff := cmp.Diff(want, good(t, "xlsx", b.Bytes()).Rows); diff != "" {
		t.Error(diff)
	}
}

// TestEpub: chapters come in the order of the spine, the table of contents doesn't, and a chapter that is missing is named.
func TestEpub(t *testing.T) {
	data := zipped(t,
		"META-INF/container.xml", `<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>`,
		"OPS/book.opf", `<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>On Owls</dc:title></metadata><manifest>
<item id="a" href="text/b%20one.xhtml" media-type="application/xhtml+xml"/><item id="b" href="text/a.xhtml" media-type="application/xhtml+xml"/>
<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/><item id="g" href="gone.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine><itemref idref="n"/><itemref idref="a"/><itemref idref="b"/><itemref idref="g"/></spine></package>`,
		"OPS/text/b one.xhtml", "<p>First chapter.</p>", "OPS/text/a.xhtml", "<p>Second chapter.</p>", "OPS/nav.xhtml", "<p>Contents</p>")
	out := good(t, "epub", data)
	if diff := cmp.Diff("First chapter.\n\nSecond chapter.", out.Parts[0].Text); diff != "" || out.Parts[0].Metadata["title"] != "On Owls" || len(out.Notes) != 1 {
		t.Errorf("%v %v\n%s", out.Parts[0].Metadata, out.Notes, diff)
	}
}

// TestTables: the first row names the columns; quotes hold line ends; semicolons part where commas are in numbers.
func TestTables(t *testing.T) {
	want := []string{"Owl: Barn\nNote: says \"hiss\",\nand flies", "Owl: Tawny\n350 g"}
	for name, data := range map[string]string{
		"csv": "Owl,Note,\nBarn,\"says \"\"hiss\"\",\nand flies\",\nTawny,,350 g\n",
		"tsv": "Owl\tNote\t\nBarn\t\"says \"\"hiss\"\",\nand flies\"\t\nTawny\t\t350 g\n",
	} {
		if diff := cmp.Diff(want, good(t, name, []byte(data)).Rows); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"a: 1,5\nb: 2"}, good(t, "csv", []byte("\ufeffa;b\n1,5;2\n")).Rows); diff != "" {
		t.Error(diff)
	}
}

// TestMail: headers and bodies of any encoding; of two forms of one text, the plain one; attachments are named.
func TestMail(t *testing.T) {
	mail := "From: =?iso-8859-1?Q?J=FCrgen?= <j@example.org>\r\nTo: ann@example.org\r\nSubject: =?utf-8?B?T3dscyDwn6aJ?=\r\nDate: Mon, 6 May 2024 10:00:00 +0000\r\nMessage-Id: <1@example.org>\r\n" +
		"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: multipart/alternative; boundary=y\r\n\r\n" +
		"--y\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nF=FCr Eulen=\r\nfreunde.\r\n" +
		"--y\r\nContent-Type: text/html\r\n\r\n<p>F&uuml;r</p>\r\n--y--\r\n" +
		"--x\r\nContent-Type: application/pdf; name=owl.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nJVBERi0=\r\n--x--\r\n"
	out := good(t, "mail", []byte(mail))
	want := "# Owls 🦉\n\nFrom: Jürgen <j@example.org>\nTo: ann@example.org\nDate: Mon, 6 May 2024 10:00:00 +0000\n\nFür Eulenfreunde.\n\nAttachments: owl.pdf"
	if diff := cmp.Diff(want, out.Parts[0].Text); diff != "" || out.Parts[0].Metadata["message_id"] != "1@example.org" {
		t.Errorf("%v\n%s", out.Parts[0].Metadata, diff)
	}
	box := "From a@b Mon May  6 10:00:00 2024\nSubject: One\nMessage-Id: <1@x>\n\nFirst.\n>From here on.\n\nFrom a@b Mon May  6 11:00:00 2024\nSubject: Two\n\nSecond.\n"
	parts := good(t, "mailbox", []byte(box)).Parts
	if len(parts) != 2 || parts[0].Name != "1@x" || parts[1].Name != "2" || parts[0].Text != "# One\n\n\nFirst.\nFrom here on." || !strings.HasSuffix(parts[1].Text, "Second.") {
		t.Errorf("%+v", parts)
	}
}

// TestSubtitles: what is said goes on over cues, without times and marks.
func TestSubtitles(t *testing.T) {
	for data, want := range map[string]string{
		"1\n00:00:01,000 --> 00:00:02,500\n<i>Owls hunt</i>\n\n2\n00:00:02,500 --> 00:00:04,000\nby night.\n":                                          "Owls hunt by night.",
		"WEBVTT\n\nNOTE a note\n\n00:01.000 --> 00:02.000 align:start\nOwls <00:01.500><c>hunt</c>\n\n00:02.000 --> 00:03.000\nOwls hunt\nby night.\n": "Owls hunt by night.",
	} {
		if got := text(t, "subtitles", []byte(data)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestJSONText: what holds no rows is text by its keys.
func TestJSONText(t *testing.T) {
	got := text(t, "json", []byte(`{"name": "owl", "weight": 350.25, "id": 1746714878034235396, "eats": ["mice", {"kind": "voles"}], "none": null}`))
	want := "name: owl\nweight: 350.25\nid: 1746714878034235396\neats:\n  - mice\n  -\n    kind: voles\n\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestParquet: rows come with their vectors.
func TestParquet(t *testing.T) {
	type row struct {
		ID     string    `parquet:"id"`
		Text   string    `parquet:"text"`
		Page   int64     `parquet:"page"`
		Vector []float32 `parquet:"embedding,list"`
	}
	var b bytes.Buffer
	if err := parquet.Write(&b, []row{{"a", "Owls hunt.", 1746714878034235396, []float32{1, 0.5}}, {"b", "Herons wait.", 2, nil}}); err != nil {
		t.Fatal(err)
	}
	lines := good(t, "parquet", b.Bytes()).Lines
	if len(lines) != 2 || !strings.Contains(string(lines[0]), `"embedding":[1,0.5]`) || !strings.Contains(string(lines[0]), `"page":1746714878034235396`) {
		t.Errorf("%s", lines)
	}
}

// pdf makes a PDF of pages, each with lines of text.
func pdf(pages ...[]string) []byte {
	var b bytes.Buffer
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	b.WriteString("%PDF-1.4\n")
	kids := ""
	for i := range pages {
		kids += fmt.Sprintf("%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, lines := range pages {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i))
		stream := ""
		for j, l := range lines {
			if l != "" {
				stream += fmt.Sprintf("BT /F1 12 Tf 72 %d Td (%s) Tj ET\n", 720-14*j, l)
			}
		}
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return b.Bytes()
}

// TestPDF: lines are joined to paragraphs, parted words put together, running heads and page numbers left out; a scan, an encrypted and
// a broken file are named.
func TestPDF(t *testing.T) {
	var pages [][]string
	for i, sentence := range []string{"one", "two", "three", "four"} {
		pages = append(pages, []string{
			"The Book of Owls", "", "Owls hunt by night, as the chapter on hunting tells at some length, page", sentence + " of them, and they are seldom seen where people live and walk.", "",
			"A second paragraph tells that herons wait where the water is low and the mead-", "ows are wet, for as long as it takes them to see " + sentence + " fish.", "", fmt.Sprint(i + 1),
		})
	}
	got := text(t, "pdf", pdf(pages...))
	for _, want := range []string{
		"Owls hunt by night, as the chapter on hunting tells at some length, page one of them, and they are seldom seen where people live and walk.",
		"the meadows are wet, for as long as it takes them to see four fish.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "The Book of Owls") || len(strings.Split(got, "\n\n")) != 8 {
		t.Errorf("heads are in it, or paragraphs run together:\n%s", got)
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"a scan":    {pdf([]string{}, []string{}), "2 pages hold no text"},
		"broken":    {[]byte("%PDF-1.4\nnothing"), "broken"},
		"encrypted": {encrypted(), "encrypted"},
	} {
		if _, err := read(t, "pdf", c.data); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// encrypted is a PDF that asks for a password: its key is nobody's.
func encrypted() []byte {
	data := pdf([]string{"secret"})
	key := strings.Repeat("ab", 32)
	return bytes.Replace(data, []byte("/Root 1 0 R"), []byte("/Root 1 0 R /ID [<aa> <aa>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <"+key+"> /U <"+key+"> >>"), 1)
}

// TestBroken: a file that isn't what its name says, and one that unpacks to more than may be, is one sentence.
func TestBroken(t *testing.T) {
	for _, r := range All() {
		for _, data := range [][]byte{[]byte("PK\x03\x04\x00 not a file"), {0, 1, 2}, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")} {
			if r.Name == "html" || r.Name == "pdf" { // pages are anything; TestPDF has the other
				continue
			}
			if _, err := read(t, r.Name, data); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of %q: %v", r.Name, data, err)
			}
		}
	}
	bomb := zipped(t, "word/document.xml", strings.Repeat(" ", mostUnpacked+1))
	if _, err := read(t, "docx", bomb); err == nil || !strings.Contains(err.Error(), "unpacks to more") {
		t.Errorf("a bomb: %v", err)
	}
	deep := zipped(t, "word/document.xml", strings.Repeat("<a>", 200_000))
	if _, err := read(t, "docx", deep); err == nil {
		t.Error("deep nesting is taken")
	}
}
