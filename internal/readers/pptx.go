package readers

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readPptx reads slides in their order, each with its title, texts, tables and notes.
func readPptx(ctx context.Context, data []byte, _ Tools) (Result, error) {
	a, err := openArchive(data)
	if err != nil {
		return Result{}, err
	}
	const main = "ppt/presentation.xml"
	var deck struct {
		Slides []struct {
			Relation string `xml:"http://schemas.openxmlformats.org/officeDocument/2006/relationships id,attr"`
		} `xml:"sldIdLst>sldId"`
	}
	if err := a.decode(main, &deck); err != nil {
		return Result{}, err
	}
	targets, _ := a.relations(main)
	var slides []string
	for i, s := range deck.Slides {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		text, err := slide(a, targets[s.Relation], i+1)
		if err != nil {
			return Result{}, err
		}
		slides = append(slides, text)
	}
	return one(strings.Join(slides, "\n\n"))
}

func slide(a *archive, name string, number int) (string, error) {
	data, err := a.read(name)
	if err != nil {
		return "", err
	}
	title, blocks, err := drawing(data)
	if err != nil {
		return "", fmt.Errorf("slide %d is broken: %w", number, err)
	}
	targets, kinds := a.relations(name)
	for id, kind := range kinds {
		if kind != "notesSlide" {
			continue
		}
		notes, err := a.read(targets[id])
		if err != nil {
			return "", err
		}
		_, said, err := drawing(notes)
		if err != nil {
			return "", fmt.Errorf("the notes of slide %d are broken: %w", number, err)
		}
		if len(said) > 0 {
			blocks = append(blocks, "Notes: "+strings.Join(said, "\n\n"))
		}
	}
	if title == "" && len(blocks) == 0 {
		return "", nil
	}
	if title == "" {
		title = fmt.Sprintf("Slide %d", number)
	}
	return strings.Join(append([]string{"## " + title}, blocks...), "\n\n"), nil
}

// drawing reads the shapes of a slide: its title, and the blocks of the rest.
func drawing(data []byte) (title string, blocks []string, err error) {
	dec := xmlDecoder(data)
	var s shapes
	for depth := 0; ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return s.title, s.blocks, nil
		}
		if err != nil {
			return "", nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth++; depth > 10_000 {
				return "", nil, errors.New("its elements nest deeper than 10,000 levels")
			}
			s.start(e)
		case xml.EndElement:
			depth--
			s.end(e.Name.Local)
		case xml.CharData:
			if s.inText {
				s.run.Write(e)
			}
		}
	}
}

// shapes collects what the shapes of a slide say.
type shapes struct {
	title  string
	blocks []string

	kind   string // of the placeholder at hand
	lines  []string
	run    strings.Builder
	inText bool
	cell   []string // of a table, while it is read
	row    []string
	rows   [][]string
	inCell bool
}

func (s *shapes) start(e xml.StartElement) {
	switch e.Name.Local {
	case "sp":
		s.kind, s.lines = "", nil
	case "ph":
		s.kind = attr(e, "type")
	case "t":
		s.inText = true
	case "br":
		s.run.WriteByte(' ')
	case "tbl":
		s.rows = nil
	case "tr":
		s.row = nil
	case "tc":
		s.cell, s.inCell = nil, true
	case "cNvPr":
		if alt := attr(e, "descr"); alt != "" && !strings.Contains(strings.ToLower(alt), "automatically generated") {
			s.blocks = append(s.blocks, alt)
		}
	}
}

func (s *shapes) end(name string) {
	switch name {
	case "t":
		s.inText = false
	case "p":
		line := strings.Join(strings.Fields(s.run.String()), " ")
		s.run.Reset()
		switch {
		case line == "":
		case s.inCell:
			s.cell = append(s.cell, line)
		default:
			s.lines = append(s.lines, line)
		}
	case "tc":
		s.row, s.inCell = append(s.row, strings.Join(s.cell, " ")), false
	case "tr":
		s.rows = append(s.rows, s.row)
	case "tbl":
		s.blocks = append(s.blocks, strings.TrimRight(layoutTable(s.rows), "\n"))
	case "sp":
		s.shape()
	}
}

// shape ends the one at hand. Numbers and dates of slides are on each of them, and say nothing.
func (s *shapes) shape() {
	switch {
	case len(s.lines) == 0 || s.kind == "sldNum" || s.kind == "dt" || s.kind == "ftr" || s.kind == "hdr":
	case (s.kind == "title" || s.kind == "ctrTitle") && s.title == "":
		s.title = strings.Join(s.lines, " ")
	case len(s.lines) == 1:
		s.blocks = append(s.blocks, s.lines[0])
	default:
		s.blocks = append(s.blocks, "- "+strings.Join(s.lines, "\n- "))
	}
	s.lines = nil
}
