package corpus

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// peak runs fn and returns the most bytes of heap that were seen meanwhile, beyond those before.
func peak(t *testing.T, fn func()) uint64 {
	t.Helper()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, done, most := heap(), make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		at := uint64(0)
		for {
			select {
			case <-done:
				most <- max(at, heap())
				return
			case <-tick.C:
				at = max(at, heap())
			}
		}
	}()
	fn()
	close(done)
	return max(<-most, before) - before
}

// TestA5Pages: a page takes memory by its bytes, whatever it is made of: what would be a tree of many times its size is none.
func TestA5Pages(t *testing.T) {
	var marks strings.Builder
	for i := range 400 {
		fmt.Fprintf(&marks, "<b id=%d>", i)
	}
	var attributes strings.Builder
	for i := range 1_100_000 {
		fmt.Fprintf(&attributes, "a%x ", i)
	}
	for name, page := range map[string]string{
		"breaks":     strings.Repeat("<br>", 4<<20),
		"formatting": "<p>" + marks.String() + "</p>" + strings.Repeat("<p>x</p>", 100_000),
		"attributes": "<p " + attributes.String() + ">x</p>",
		"cells":      strings.Repeat("<td>x", 1<<20),
		"one tag":    "<p a=\"" + strings.Repeat("x", 12<<20) + "\">x</p>",
		"utf-16":     "\xff\xfe" + strings.Repeat("<\x00b\x00r\x00>\x00", 1<<20),
	} {
		var err error
		if used := peak(t, func() { _, err = readHTML([]byte(page)) }); (err != nil) != (name == "one tag") || used > 300<<20 {
			t.Errorf("%s, %d bytes: %d MiB and %v", name, len(page), used>>20, err)
		}
	}
	text, err := readHTML([]byte("<title>Owls</title>" + strings.Repeat("<p>They <b>listen</b> <a href=x>in the</a> dark.</p>", 20_000)))
	if err != nil || strings.Count(text, "listen") != 20_000 {
		t.Errorf("a large page of a usual kind: %v", err)
	}
}

// TestA5Texts: a text is cut part by part, so that what it holds makes little difference; nothing of it is lost at the seams.
func TestA5Texts(t *testing.T) {
	for name, text := range map[string]string{
		"lines":  strings.Repeat("a\n", 1<<20),
		"rules":  strings.Repeat("- \n", 1<<19),
		"no gap": strings.Repeat("\u00e9", 1<<20),
	} {
		var chunks []Chunk
		if used := peak(t, func() { chunks = Split(text, 8192, NewCounter()) }); used > 512<<20 {
			t.Errorf("%s, %d bytes: %d MiB", name, len(text), used>>20)
		}
		end := 0
		for _, c := range chunks {
			if c.Start < end || strings.TrimSpace(text[end:c.Start]) != "" || text[c.Start:c.End] != c.Text {
				t.Fatalf("%s: something is lost between %d and %d", name, end, c.Start)
			}
			end = c.End
		}
		if strings.TrimSpace(text[end:]) != "" {
			t.Errorf("%s: the end is lost after %d", name, end)
		}
	}
}

// TestA5Rows: what a row brings along is bounded.
func TestA5Rows(t *testing.T) {
	var keys strings.Builder
	for i := range mostKeys + 1 {
		fmt.Fprintf(&keys, `"k%d":1,`, i)
	}
	large := `{"id":"a","text":"` + strings.Repeat("x", largestRow) + `"}`
	wide := `{"id":"b","text":"x","embedding":[` + strings.Repeat("1,", widest) + `1]}`
	rich := `{"id":"c",` + keys.String() + `"text":"x"}`
	long := `{"document":{"id":"d","text":"` + strings.Repeat("x", largestLine) + `"}}`
	var problems []Problem
	got := 0
	err := ReadStream(t.Context(), strings.NewReader(strings.Join([]string{large, wide, rich, long, `{"id":"e","text":"x"}`}, "\n")+"\n"),
		Options{Problem: func(p Problem) { problems = append(problems, p) }}, func(Document) error { got++; return nil })
	if err != nil || got != 1 || len(problems) != 4 {
		t.Errorf("%d rows, %v, %+v", got, err, problems)
	}
	if !errors.Is(tooLarge(largestRow), errLarge) {
		t.Error("what is too large isn't told apart")
	}
}
