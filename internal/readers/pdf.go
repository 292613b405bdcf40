package readers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// pdfEngine is PDFium as WebAssembly: it sees the bytes of one file and nothing of the machine. It is made once, when the first PDF is
// read, and lives as long as the process.
var pdfEngine struct {
	sync.Mutex
	pool pdfium.Pool
}

// enginePool compiles the engine, which takes 8 to 12 seconds, or takes what was compiled before from the cache folder.
func enginePool(cache string) (pdfium.Pool, error) {
	pdfEngine.Lock()
	defer pdfEngine.Unlock()
	if pdfEngine.pool != nil {
		return pdfEngine.pool, nil
	}
	cfg := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).WithMemoryLimitPages(mostPDFPages)
	if cache != "" {
		kept, err := wazero.NewCompilationCacheWithDir(cache)
		if err == nil { // without it the engine is only slower
			cfg = cfg.WithCompilationCache(kept)
		}
	}
	pool, err := webassembly.Init(webassembly.Config{
		MinIdle: 0, MaxIdle: 2, MaxTotal: 2, FSConfig: wazero.NewFSConfig(), RuntimeConfig: cfg, Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return nil, fmt.Errorf("the reader of PDF can't be started: %w", err)
	}
	pdfEngine.pool = pool
	return pool, nil
}

// mostPDFPages bounds the memory of one PDF that is being read, in pages of 64 KiB.
const mostPDFPages = 1 << 30 >> 16

// readPDF reads the text of a PDF: lines joined to paragraphs, words that a line's end has parted put together, and what stands at the
// head or foot of page after page left out.
func readPDF(ctx context.Context, data []byte, t Tools) (out Result, err error) {
	pool, err := enginePool(t.Cache)
	if err != nil {
		return Result{}, err
	}
	instance, err := pool.GetInstance(0)
	if err != nil {
		return Result{}, fmt.Errorf("the reader of PDF can't be started: %w", err)
	}
	defer func() {
		if r := recover(); r != nil { // the sandbox holds what a broken file does
			out, err = Result{}, errors.New("it is broken in a way that ends its reader")
		}
		_ = instance.Close()
	}()
	doc, err := instance.OpenDocument(&requests.OpenDocument{File: &data})
	switch {
	case errors.Is(err, pdferrors.ErrPassword):
		return Result{}, errors.New("it is encrypted; save it without a password")
	case err != nil:
		return Result{}, fmt.Errorf("it is broken, or no PDF: %w", err)
	}
	defer func() { _, _ = instance.FPDF_CloseDocument(&requests.FPDF_CloseDocument{Document: doc.Document}) }()
	count, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return Result{}, fmt.Errorf("it is broken: %w", err)
	}
	pages := make([][]pdfLine, 0, count.PageCount)
	silent := 0
	for i := range count.PageCount {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		lines, err := pageLines(instance, doc.Document, i)
		if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("page %d can't be read: %v", i+1, err))
		}
		if len(lines) == 0 {
			silent++
		}
		pages = append(pages, lines)
	}
	if silent == len(pages) {
		return Result{}, fmt.Errorf("its %d pages hold no text: it is a scan, which has to be recognized first (ocrmypdf does)", len(pages))
	}
	if silent > 0 && silent*10 >= len(pages) {
		out.Notes = append(out.Notes, fmt.Sprintf("%d of its %d pages hold no text", silent, len(pages)))
	}
	out.Parts = []Part{{Text: pdfText(dropRunning(pages))}}
	return out, nil
}

// pdfLine is a line of a page.
type pdfLine struct {
	text        string
	left, right float64
	top, bottom float64 // in points from the page's foot
	size        float64 // of its type
}

// pageLines reads the lines of a page as PDFium finds them, in the order in which the file has them: that is the order in which they
// were written, columns and all.
func pageLines(instance pdfium.Pdfium, doc references.FPDF_DOCUMENT, index int) ([]pdfLine, error) {
	opened, err := instance.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: index}}})
	if err != nil {
		return nil, err
	}
	page := opened.TextPage
	defer func() { _, _ = instance.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: page}) }()
	chars, err := instance.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: page})
	if err != nil || chars.Count < 1 {
		return nil, err
	}
	all, err := instance.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: page, Count: chars.Count})
	if err != nil {
		return nil, err
	}
	var raws []rawLine
	at := 0 // in characters as PDFium counts them: UTF-16
	for raw := range strings.Lines(all.Text) {
		l := rawLine{text: raw, from: at}
		l.measure(instance, page)
		raws = append(raws, l)
		at += len(utf16.Encode([]rune(raw)))
	}
	ends := make([][2]int, len(raws)) // first and last character of each
	for i, raw := range raws {
		text := strings.TrimRight(strings.Map(printableRune, raw.text), " ")
		first := len(text) - len(strings.TrimLeft(text, " "))
		ends[i] = [2]int{raw.from + len(utf16.Encode([]rune(text[:first]))), raw.from + len(utf16.Encode([]rune(text))) - 1}
	}
	respace(raws)
	var lines []pdfLine
	for i, raw := range raws {
		text := strings.Map(printableRune, raw.text)
		if strings.Trim(text, " ") == "" {
			continue
		}
		l := pdfLine{text: whole(text)}
		l.place(instance, page, ends[i][0], ends[i][1])
		lines = append(lines, l)
	}
	return lines, nil
}

// whole is a line without the hyphens that parted its words; one at its end stays for the next line.
func whole(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	body := strings.TrimSuffix(line, "\u00ad")
	return strings.ReplaceAll(body, "\u00ad", "") + line[len(body):]
}

// place finds where a line stands by its first and last characters.
func (l *pdfLine) place(instance pdfium.Pdfium, page references.FPDF_TEXTPAGE, first, last int) {
	from, err := instance.FPDFText_GetCharBox(&requests.FPDFText_GetCharBox{TextPage: page, Index: first})
	if err != nil {
		return
	}
	l.left, l.right, l.top, l.bottom = from.Left, from.Right, from.Top, from.Bottom
	if to, err := instance.FPDFText_GetCharBox(&requests.FPDFText_GetCharBox{TextPage: page, Index: last}); err == nil {
		l.right, l.top, l.bottom = max(l.right, to.Right), max(l.top, to.Top), min(l.bottom, to.Bottom)
	}
	l.size = l.top - l.bottom
	if size, err := instance.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: page, Index: first}); err == nil && size.FontSize > 1.5 {
		l.size = size.FontSize // one of 1 is scaled elsewhere
	}
}

func printableRune(r rune) rune {
	switch {
	case r == '\u00ad', r == '\ufffe', r == '\u0002': // a hyphen at a line's end, in the ways that PDFium has it
		return '\u00ad'
	case r < ' ', r == '\ufeff', r == '\uffff', r == '\u00a0':
		return ' '
	}
	return r
}
