package readers

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// readDocx reads a Word document: headings by their style, lists, tables, notes where they are referred to, text boxes; what was
// deleted with changes tracked is gone, what was inserted is there.
func readDocx(_ context.Context, data []byte, _ Tools) (Result, error) {
	a, err := openArchive(data)
	if err != nil {
		return Result{}, err
	}
	main := "word/document.xml"
	if targets, kinds := a.relations(""); true {
		for id, kind := range kinds {
			if kind == "officeDocument" {
				main = targets[id]
			}
		}
	}
	d := &docx{styles: map[string]int{}, notes: map[string]string{}}
	targets, kinds := a.relations(main)
	for id, kind := range kinds {
		switch kind {
		case "styles":
			d.readStyles(a, targets[id])
		case "footnotes", "endnotes":
			if err := d.readNotes(a, targets[id], kind); err != nil {
				return Result{}, err
			}
		}
	}
	content, err := a.read(main)
	if err != nil {
		return Result{}, err
	}
	blocks, err := d.read(content)
	if err != nil {
		return Result{}, err
	}
	return one(blocks)
}

type docx struct {
	styles map[string]int    // level of a heading by style, from 1
	notes  map[string]string // text by kind and id
}

// readStyles finds which styles are headings, by their names and outline levels.
func (d *docx) readStyles(a *archive, name string) {
	var styles struct {
		All []struct {
			ID   string `xml:"styleId,attr"`
			Name struct {
				Val string `xml:"val,attr"`
			} `xml:"name"`
			Paragraph struct {
				Outline *struct {
					Val string `xml:"val,attr"`
				} `xml:"outlineLvl"`
			} `xml:"pPr"`
		} `xml:"style"`
	}
	if a.decode(name, &styles) != nil { // then headings are paragraphs
		return
	}
	for _, s := range styles.All {
		if level := headingLevel(s.Name.Val); level > 0 {
			d.styles[s.ID] = level
		} else if s.Paragraph.Outline != nil {
			if n, err := strconv.Atoi(s.Paragraph.Outline.Val); err == nil && n < 9 {
				d.styles[s.ID] = n + 1
			}
		}
	}
}

// headingLevel is that of a style's name, which Word writes in English whatever it shows; 0 for none.
func headingLevel(name string) int {
	lower := strings.ToLower(name)
	if lower == "title" {
		return 1
	}
	if n, ok := strings.CutPrefix(lower, "heading "); ok {
		if level, err := strconv.Atoi(n); err == nil && level >= 1 && level <= 9 {
			return level
		}
	}
	return 0
}

func (d *docx) readNotes(a *archive, name, kind string) error {
	data, err := a.read(name)
	if err != nil {
		return err
	}
	dec := xmlDecoder(data)
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is broken: %w", name, err)
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "footnote" && e.Name.Local != "endnote" || attr(e, "type") == "separator" || attr(e, "type") == "continuationSeparator" {
			continue
		}
		w := &wordReader{doc: d, dec: dec}
		if err := w.until(e.Name.Local); err != nil {
			return err
		}
		d.notes[kind+attr(e, "id")] = strings.Join(strings.Fields(w.text()), " ")
	}
}

func (d *docx) read(data []byte) (string, error) {
	w := &wordReader{doc: d, dec: xmlDecoder(data)}
	if err := w.until(""); err != nil {
		return "", err
	}
	return w.text(), nil
}

// wordReader reads WordprocessingML into blocks.
type wordReader struct {
	doc    *docx
	dec    *xml.Decoder
	blocks []string
	run    strings.Builder // of the paragraph at hand
	notes  []string        // that it refers to
	level  int             // of its heading
	item   int             // of its list, from 1; 0 for none
	tables []*wordTable
	inText bool
}

type wordTable struct {
	rows   [][]string
	blocks []string // of what is around it
}

func (w *wordReader) text() string {
	var b strings.Builder
	for i, block := range w.blocks {
		if i > 0 {
			if strings.HasPrefix(strings.TrimLeft(block, " "), "- ") && strings.HasPrefix(strings.TrimLeft(w.blocks[i-1], " "), "- ") {
				b.WriteString("\n")
			} else {
				b.WriteString("\n\n")
			}
		}
		b.WriteString(block)
	}
	return b.String()
}

// until reads to the end of an element that was begun, or with "" to the end of the file.
func (w *wordReader) until(end string) error {
	skip := 0
	for depth := 0; ; {
		token, err := w.dec.Token()
		if errors.Is(err, io.EOF) {
			if end == "" {
				return nil
			}
			return errors.New("it ends too early")
		}
		if err != nil {
			return fmt.Errorf("its text is broken: %w", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth++; depth > 10_000 {
				return errors.New("its elements nest deeper than 10,000 levels")
			}
			// What Word draws is written twice: once for readers that know how, once for others. Deleted text is gone.
			if skip > 0 || slices.Contains([]string{"del", "moveFrom", "Fallback", "instrText", "delText"}, e.Name.Local) {
				skip++
				continue
			}
			w.start(e)
		case xml.EndElement:
			if skip > 0 {
				skip--
			} else if depth == 0 && e.Name.Local == end {
				w.paragraph()
				return nil
			} else {
				w.end(e.Name.Local)
			}
			depth--
		case xml.CharData:
			if skip == 0 && w.inText {
				w.run.Write(e)
			}
		}
	}
}

func (w *wordReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "p":
		w.paragraph()
	case "t":
		w.inText = true
	case "tab":
		w.run.WriteByte(' ')
	case "br", "cr":
		w.run.WriteByte('\n')
	case "noBreakHyphen":
		w.run.WriteByte('-')
	case "pStyle":
		w.level = w.doc.styles[attr(e, "val")]
		if w.level == 0 {
			w.level = headingLevel(strings.Replace(attr(e, "val"), "Heading", "heading ", 1))
		}
	case "outlineLvl":
		if n, err := strconv.Atoi(attr(e, "val")); err == nil && n < 9 && w.level == 0 {
			w.level = n + 1
		}
	case "numPr":
		w.item = max(w.item, 1)
	case "ilvl":
		if n, err := strconv.Atoi(attr(e, "val")); err == nil && n < 9 {
			w.item = n + 1
		}
	case "footnoteReference", "endnoteReference":
		if note := w.doc.notes[strings.TrimSuffix(e.Name.Local, "Reference")+"s"+attr(e, "id")]; note != "" {
			w.notes = append(w.notes, note)
		}
	case "docPr":
		if alt := attr(e, "descr"); alt != "" {
			w.run.WriteString(alt)
		}
	case "tbl":
		w.paragraph()
		w.tables = append(w.tables, &wordTable{blocks: w.blocks})
		w.blocks = nil
	case "tr":
		if t := w.table(); t != nil {
			t.rows = append(t.rows, nil)
		}
	case "tc":
		w.blocks = nil
	}
}

func (w *wordReader) table() *wordTable {
	if len(w.tables) == 0 {
		return nil
	}
	return w.tables[len(w.tables)-1]
}

func (w *wordReader) end(name string) {
	switch name {
	case "t":
		w.inText = false
	case "p":
		w.paragraph()
	case "tc":
		if t := w.table(); t != nil && len(t.rows) > 0 {
			w.paragraph()
			t.rows[len(t.rows)-1] = append(t.rows[len(t.rows)-1], strings.Join(w.blocks, " "))
			w.blocks = nil
		}
	case "tbl":
		if t := w.table(); t != nil {
			w.tables = w.tables[:len(w.tables)-1]
			w.blocks = t.blocks
			w.add(strings.TrimRight(layoutTable(t.rows), "\n"))
		}
	}
}

// layoutTable writes a table; one that has one column, or one row, holds blocks.
func layoutTable(rows [][]string) string {
	wide := 0
	for _, row := range rows {
		wide = max(wide, len(row))
	}
	if wide > 1 && len(rows) > 1 {
		return markdownTable(rows)
	}
	var blocks []string
	for _, row := range rows {
		blocks = append(blocks, row...)
	}
	return strings.Join(blocks, "\n\n")
}

func (w *wordReader) add(block string) {
	if strings.TrimSpace(block) != "" {
		w.blocks = append(w.blocks, block)
	}
}

// paragraph ends the one at hand.
func (w *wordReader) paragraph() {
	text := strings.TrimSpace(w.run.String())
	w.run.Reset()
	switch {
	case text == "":
	case w.level > 0 && len(w.tables) == 0:
		w.add(strings.Repeat("#", min(w.level, 6)) + " " + strings.Join(strings.Fields(text), " "))
	case w.item > 0 && len(w.tables) == 0:
		w.add(strings.Repeat("  ", w.item-1) + "- " + strings.ReplaceAll(text, "\n", " "))
	default:
		w.add(text)
	}
	for _, note := range w.notes {
		w.add("(" + note + ")")
	}
	w.level, w.item, w.notes = 0, 0, nil
}
