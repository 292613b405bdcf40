package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/sync/semaphore"
)

const (
	// mostNodes is how many nodes the tree of a page may have, attributes counted too: about 150 bytes each.
	mostNodes = 1 << 20
	// longestToken is how many bytes a tag or a text may have that nothing interrupts.
	longestToken = 8 << 20
)

// deepestPage is how many open elements the parser takes.
const deepestPage = 512

// pages bounds the trees of pages that are in memory at once, over all that is read in this process: there is one memory.
var pages = semaphore.NewWeighted(mostNodes)

// errRich: a page whose tree would not fit.
var errRich = fmt.Errorf("its tree would have more than %d elements; split it", mostNodes)

// enterPage waits until there is room for the tree of a page.
func enterPage(data []byte) (leave func(), err error) {
	n, err := nodesOf(data)
	if err != nil {
		return nil, err
	}
	if err := pages.Acquire(context.Background(), n); err != nil { // it waits for parsers, which wait for nothing
		return nil, err
	}
	return func() { pages.Release(n) }, nil
}

// formatting are the elements that a parser opens anew in every block until they are closed, so that a page of some thousand bytes can
// stand for millions of them.
var formatting = []atom.Atom{atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U}

// nodesOf returns about how many nodes the tree of a page has, at most: an error if those are too many. It needs no memory.
func nodesOf(data []byte) (int64, error) {
	z := html.NewTokenizer(bytes.NewReader(data))
	z.SetMaxBuf(longestToken)
	n, open := int64(16), 0 // those that every page has; formatting elements that are open
	for n < mostNodes {
		switch z.Next() {
		case html.ErrorToken:
			switch err := z.Err(); {
			case err == io.EOF:
				return n, nil
			case errors.Is(err, html.ErrBufferExceeded):
				return 0, fmt.Errorf("a tag or text without a break is longer than %d MiB", longestToken>>20)
			default:
				return 0, err
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			for ; more; n++ {
				_, _, more = z.TagAttr()
			}
			n += 4 + int64(open) // a cell may bring a table with it
			if slices.Contains(formatting, atom.Lookup(name)) {
				open = min(open+1, deepestPage)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); slices.Contains(formatting, atom.Lookup(name)) && open > 0 {
				open--
			}
			n += 2
		default:
			n += 1 + int64(open)
		}
	}
	return 0, errRich
}
