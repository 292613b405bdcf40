package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/aerie-rag/aerie/internal/store"
)

// This file reads the postings of words straight from the tables in which FTS5 keeps its index. FTS5's own ranking
// takes a microsecond and a half for each node that holds any of the words, which is every other node when one of
// the words is "the"; read here, a posting takes some nanoseconds, and 50,000 nodes are ranked in a few milliseconds.
//
// The format is part of SQLite's file format, and described at the top of ext/fts5/fts5_index.c: an index is a set of
// segments, a segment is a row of pages, a page holds terms in order, each with its doclist. A doclist is a row of
// (row number, positions), and goes on on the pages that follow. An index with a feature that isn't known here is
// errIndexFormat, and the caller asks FTS5 (see [Store.Keyword]). One that can't be what FTS5 wrote is
// [store.ErrIndexDamaged]: a bit that was turned over must not cost more than an error, whatever it says.
//
// FTS5 marks what was deleted or replaced. Here nobody looks: a row number is never used twice, so each is in one
// segment, and a row that was deleted isn't in the table of nodes.

// errIndexFormat: the keyword index is not as this file knows it.
var errIndexFormat = errors.New("unknown format of the keyword index")

// damaged is the error of an index that can't be right.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrIndexDamaged, fmt.Sprintf(format, args...))
}

// pageBits is how far the number of a segment is shifted in the row number of its pages.
const pageBits = 37

// The largest numbers of a segment and of a page that FTS5 gives out (FTS5_DATA_ID_B, FTS5_DATA_PAGE_B).
const (
	maxSegment = 1<<16 - 1
	maxPage    = 1<<31 - 1
)

// keywordSegment is a part of the index, with the numbers of its first and last page.
type keywordSegment struct{ id, first, last int64 }

// keywordSegments reads which segments the index has.
func (s *session) keywordSegments(c *collection) ([]keywordSegment, error) {
	var version int64
	var record []byte
	if _, err := s.row("SELECT CAST(v AS INTEGER) FROM "+c.keywords+"_config WHERE k = 'version'", nil, &version); err != nil {
		return nil, err
	}
	// 5 is 4 after something was deleted for good.
	if version != 4 && version != 5 {
		return nil, fmt.Errorf("%w: version %d", errIndexFormat, version)
	}
	if ok, err := s.row("SELECT block FROM "+c.keywords+"_data WHERE id = 10", nil, &record); err != nil {
		return nil, err
	} else if !ok {
		return nil, damaged("no list of segments")
	}
	return parseStructure(record)
}

// parseStructure reads the record of segments: a cookie of 4 bytes, then varints.
func parseStructure(record []byte) ([]keywordSegment, error) {
	r := varints{b: record}
	r.skip(4)
	if bytes.HasPrefix(r.b[min(r.at, len(r.b)):], []byte{0xff, 0, 0, 1}) {
		return nil, fmt.Errorf("%w: tombstones", errIndexFormat)
	}
	var segments []keywordSegment
	levels, total := r.next(), r.next()
	r.next() // counts writes
	// Each level takes two bytes at least, each segment three: numbers beyond that are no numbers of ours.
	room := uint64(len(record))
	if r.failed || levels > room || total > room {
		return nil, damaged("%d segments on %d levels in %d bytes", total, levels, room)
	}
	for range levels {
		r.next() // segments of this level that are being merged
		n := r.next()
		if r.failed || n > room {
			return nil, damaged("list of segments")
		}
		for range n {
			s := keywordSegment{id: int64(r.next()), first: int64(r.next()), last: int64(r.next())}
			segments = append(segments, s)
			if r.failed || s.id < 1 || s.id > maxSegment || s.first < 0 || s.last < s.first || s.last > maxPage {
				return nil, damaged("list of segments")
			}
		}
	}
	if uint64(len(segments)) != total {
		return nil, damaged("%d segments of %d", len(segments), total)
	}
	return segments, nil
}

// places finds for each word and segment the page on which the word stands if it stands in the segment at all.
func (s *session) places(c *collection, segments []keywordSegment, words []string) ([][]int64, error) {
	ids := make([]int64, len(segments))
	places := make([][]int64, len(words))
	for i, seg := range segments {
		ids[i] = seg.id
	}
	terms := make([]string, len(words))
	for i, w := range words {
		terms[i] = hex.EncodeToString([]byte("0" + w)) // '0' leads every term of the main index
		places[i] = make([]int64, len(segments))
	}
	query := fmt.Sprintf(`SELECT t.key, s.key, (SELECT pgno FROM %s_idx i WHERE i.segid = s.value AND i.term <= unhex(t.value) ORDER BY i.term DESC LIMIT 1)
		FROM json_each(?) t CROSS JOIN json_each(?) s`, c.keywords)
	err := s.rows(query, []any{list(terms), list(ids)}, func(scan func(...any) error) error {
		var word, segment int
		var page sql.NullInt64
		if err := scan(&word, &segment, &page); err != nil {
			return err
		}
		places[word][segment] = segments[segment].first
		if page.Valid { // the lowest bit tells of an index of the doclist; while a segment is merged into another, its first pages go
			places[word][segment] = max(segments[segment].first, page.Int64>>1)
		}
		return nil
	})
	return places, err
}

// postings calls fn with each row that holds a word, and how often. Within a segment rows ascend.
func (s *session) postings(c *collection, segments []keywordSegment, places []int64, word string, fn func(row int64, times int)) error {
	query := "SELECT id, block FROM " + c.keywords + "_data WHERE id >= ? AND id <= ? ORDER BY id"
	for i, seg := range segments {
		reader := doclist{word: append([]byte("0"), word...), fn: fn, first: c.firstNode, beyond: c.beyondNodes}
		expected := seg.id<<pageBits + places[i]
		err := s.rows(query, []any{expected, seg.id<<pageBits + seg.last}, func(scan func(...any) error) error {
			var id int64
			var page sql.RawBytes
			if err := scan(&id, &page); err != nil {
				return err
			}
			if id != expected {
				return damaged("page %d is missing", expected&maxPage)
			}
			expected++
			return reader.page(page)
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// doclist reads one word's doclist, page by page.
type doclist struct {
	word []byte // with its leading '0'
	fn   func(row int64, times int)
	// first and beyond bound the rows that there can be: first <= row < beyond.
	first, beyond int64

	begun bool // the word was found
	row   int64
	anew  bool // the next row number is written in full, not as a difference
	state int
	left  int // bytes of the positions of row that are to come
	times int
}

// maxPositions is more than the positions of any word in any text take.
const maxPositions = 1 << 31

// What comes next in a doclist.
const (
	wantRow = iota
	wantSize
	wantPositions
)

// page reads a page. errEnough says that the doclist has ended, or that the word isn't there.
//
// A page begins with two numbers of 16 bits: where the first row number stands that belongs to a doclist from an
// earlier page, and where the content ends. After the content come the places of the terms as varints, the first from
// the page's start, the others from the one before.
func (d *doclist) page(b []byte) error {
	if len(b) < 4 {
		return damaged("a page of %d bytes", len(b))
	}
	firstRow, size := int(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:]))
	if size < 4 || size > len(b) || firstRow > size {
		return damaged("a page that ends at %d", size)
	}
	terms := varints{b: b, at: size}
	if !d.begun {
		from, to, err := d.find(b[:size], &terms)
		if err != nil {
			return err
		}
		d.begun = true
		return d.read(b[from:to], to < size)
	}
	end, last := size, false
	if terms.more() {
		end, last = int(min(terms.next(), uint64(len(b)+1))), true
	}
	if terms.failed || end < 4 || end > size {
		return damaged("a term at %d", end)
	}
	d.anew = firstRow > 0
	return d.read(b[4:end], last)
}

// find looks for the word among the terms of a page and returns where its doclist begins and ends on it. A term is the
// number of bytes that it shares with the one before, except on the first, the number of the others, and these.
func (d *doclist) find(content []byte, terms *varints) (from, to int, err error) {
	var term []byte
	at := 0
	for first := true; terms.more(); first = false {
		step := terms.next()
		if terms.failed || step > uint64(len(content)) {
			return 0, 0, damaged("a term %d bytes on", step)
		}
		at += int(step)
		r := varints{b: content, at: at}
		shared := 0
		if !first {
			shared = int(r.next())
		}
		own := int(r.next())
		if r.failed || shared < 0 || shared > len(term) || own < 1 || own > len(content)-r.at {
			return 0, 0, damaged("a term at %d", at)
		}
		term = append(term[:shared], content[r.at:r.at+own]...)
		switch bytes.Compare(term, d.word) {
		case 0:
			to = len(content)
			if terms.more() {
				to = at + int(min(terms.next(), uint64(len(content)+1)))
			}
			if from = r.at + own; from > to || to > len(content) {
				return 0, 0, damaged("a doclist from %d to %d", from, to)
			}
			return from, to, nil
		case 1:
			return 0, 0, errEnough
		}
	}
	return 0, 0, errEnough
}

// read reads what a page holds of the doclist; last says that another term follows.
func (d *doclist) read(b []byte, last bool) error {
	r := varints{b: b}
	for r.more() {
		switch d.state {
		case wantRow:
			before := d.row
			if d.anew {
				d.row, d.anew = 0, false
			}
			d.row += int64(r.next())
			if !r.failed && (d.row <= before || d.row < d.first || d.row >= d.beyond) { // before is 0 at the start
				return damaged("row %d after row %d", d.row, before)
			}
			d.state = wantSize
		case wantSize:
			size := r.next() >> 1 // the lowest bit marks what was deleted
			if size > maxPositions {
				return damaged("%d bytes of positions", size)
			}
			d.left, d.times = int(size), 0
			d.state = wantPositions
			if d.left == 0 {
				d.state = wantRow
			}
		case wantPositions:
			n := min(d.left, len(b)-r.at)
			// Each position is one varint, and there is one column, so none that names a column.
			for _, x := range b[r.at : r.at+n] {
				if x < 0x80 {
					d.times++
				}
			}
			r.skip(n)
			if d.left -= n; d.left == 0 {
				d.fn(d.row, d.times)
				d.state = wantRow
			}
		}
	}
	switch {
	case r.failed || last && d.state != wantRow:
		return damaged("a doclist that is cut off")
	case last:
		return errEnough
	}
	return nil
}

// varints reads SQLite's varints: 7 bits a byte, highest first, the ninth byte whole.
type varints struct {
	b      []byte
	at     int
	failed bool // more was read than there is
}

func (v *varints) more() bool { return !v.failed && v.at < len(v.b) }

func (v *varints) skip(n int) { v.at += n }

func (v *varints) next() uint64 {
	var x uint64
	for i := range 9 {
		if v.at >= len(v.b) {
			v.failed = true
			return 0
		}
		c := v.b[v.at]
		v.at++
		if i == 8 {
			return x<<8 | uint64(c)
		}
		x = x<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return x
		}
	}
	return x
}
