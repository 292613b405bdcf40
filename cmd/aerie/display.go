package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/aerie-rag/aerie/internal/printable"
)

// display shows a build on stderr while it runs: one bar for each level on a terminal, a line every 30 s elsewhere. There
// is no bar for the whole, because how many levels there will be isn't known before the last one.
type display struct {
	c    *cli
	look func(context.Context) (glance, error)

	mu   sync.Mutex // guards bars, which is nil off a terminal and at the end
	bars *mpb.Progress

	// What follows belongs to the goroutine of run.
	level map[int]*levelBar
	foot  *mpb.Bar
	below shownText // of foot
}

type levelBar struct {
	bar   *mpb.Bar
	since time.Time // when this display saw the level first
	from  int       // how far it was then
	text  shownText
}

// shownText is a text that mpb draws in goroutines of its own. It takes no lock: calls of mpb wait for what it draws, so a
// lock held across such a call, and wanted by what is drawn, would stop both for ever.
type shownText struct{ atomic.Pointer[string] }

func (t *shownText) set(text string) { t.Store(&text) }

func (t *shownText) decorator() decor.Decorator {
	return decor.Any(func(decor.Statistics) string {
		if text := t.Load(); text != nil {
			return *text
		}
		return ""
	})
}

// lineEvery is how often a line is written off a terminal.
const lineEvery = 30 * time.Second

func newDisplay(c *cli, look func(context.Context) (glance, error)) *display {
	d := &display{c: c, look: look, level: map[int]*levelBar{}}
	if _, ok := terminal(c.err); ok {
		d.bars = mpb.New(mpb.WithOutput(bare(c.err)), mpb.WithRefreshRate(150*time.Millisecond))
		c.logTo.point(&shown{d.bars, c})
	}
	return d
}

// event tells of a step in one sentence.
func (d *display) event(text string) {
	d.mu.Lock()
	bars := d.bars
	d.mu.Unlock()
	if bars != nil {
		// What a person types, such as ^C, moves the cursor: begin at the first column.
		if _, err := fmt.Fprintln(bars, "\r\x1b[K"+printable.Line(text)); err == nil {
			return
		}
	}
	d.c.progressNote("%s", text)
}

// run shows progress until ctx ends.
func (d *display) run(ctx context.Context) {
	every := lineEvery
	if d.bars != nil {
		every = 200 * time.Millisecond
		defer d.finish()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if d.bars != nil {
				d.refresh(context.WithoutCancel(ctx))
			}
			return
		case <-tick.C:
			d.refresh(ctx)
		}
	}
}

func (d *display) refresh(ctx context.Context) {
	g, err := d.look(ctx)
	if err != nil {
		return // nothing to show yet, or not readable just now; the build itself reports errors
	}
	if d.bars == nil {
		d.c.progressLine(g)
		return
	}
	for _, l := range g.levels {
		if l.expected == 0 {
			continue
		}
		b := d.level[l.level]
		if b == nil {
			b = &levelBar{since: time.Now(), from: l.done + l.buried}
			b.text.set(levelText(l))
			b.bar = d.addBar(l.level, l.expected, &b.text)
			d.level[l.level] = b
		}
		b.text.set(levelText(l) + b.left(l))
		b.bar.SetTotal(int64(l.expected), false)
		b.bar.SetCurrent(int64(l.done + l.buried))
	}
	d.below.set(footText(g))
	if d.foot == nil {
		d.foot = d.bars.New(0, mpb.NopStyle(), mpb.BarPriority(1<<20), mpb.PrependDecorators(d.below.decorator()))
	}
}

func (d *display) addBar(level, total int, text *shownText) *mpb.Bar {
	style := mpb.BarStyle().Lbound(" ").Rbound(" ").Filler("━").Tip("━").Padding("─")
	return d.bars.New(int64(total), style, mpb.BarPriority(level), mpb.BarWidth(32),
		mpb.PrependDecorators(decor.Name(fmt.Sprintf("level %d", level), decor.WCSyncSpaceR)),
		mpb.AppendDecorators(text.decorator()))
}

// left says how much longer the level may take, at the pace since this display saw it first.
func (b *levelBar) left(l glanceLevel) string {
	done, left := l.done+l.buried-b.from, l.expected-l.done-l.buried
	passed := time.Since(b.since)
	if done <= 0 || left <= 0 || passed <= 2*time.Second {
		return ""
	}
	return ", about " + (passed * time.Duration(left) / time.Duration(done)).Round(time.Second).String() + " left"
}

func (d *display) finish() {
	if d.foot != nil {
		d.foot.Abort(true)
	}
	for _, b := range d.level {
		b.bar.Abort(false)
	}
	d.c.logTo.point(d.c.err)
	d.bars.Wait()
	d.mu.Lock()
	d.bars = nil
	d.mu.Unlock()
}

func levelText(l glanceLevel) string {
	text := fmt.Sprintf("%s/%s", count(l.done), count(l.expected))
	if l.running > 0 {
		text += fmt.Sprintf(", %d running", l.running)
	}
	if l.buried > 0 {
		text += fmt.Sprintf(", %s buried", count(l.buried))
	}
	return text
}

func footText(g glance) string {
	var parts []string
	if g.doing != "" {
		parts = append(parts, g.doing)
	}
	if len(g.waiting) > 0 {
		parts = append(parts, "waiting for "+strings.Join(g.waiting, "; "))
	}
	return strings.Join(parts, "  ·  ")
}

// progressLine writes where a build is as one line.
func (c *cli) progressLine(g glance) {
	if c.output != "table" {
		c.progressJSON(g)
		return
	}
	parts := []string{"build " + g.build}
	for _, l := range g.levels {
		if l.expected > 0 {
			parts = append(parts, fmt.Sprintf("level %d: %s", l.level, levelText(l)))
		}
	}
	if foot := footText(g); foot != "" {
		parts = append(parts, foot)
	}
	c.note("%s", strings.Join(parts, "; "))
}

// progressJSON is progressLine where stderr may be read by a program: each line is an object, and only one with the
// field "error" is an error.
func (c *cli) progressJSON(g glance) {
	type level struct {
		Level    int `json:"level"`
		Expected int `json:"expected"`
		Done     int `json:"done"`
		Running  int `json:"running"`
		Buried   int `json:"buried"`
	}
	progress := struct {
		Build   string   `json:"build"`
		Doing   string   `json:"doing"`
		Waiting []string `json:"waiting_for"`
		Levels  []level  `json:"levels"`
	}{g.build, g.doing, append([]string{}, g.waiting...), []level{}}
	for _, l := range g.levels {
		progress.Levels = append(progress.Levels, level{l.level, l.expected, l.done, l.running, l.buried})
	}
	line, err := json.Marshal(map[string]any{"progress": progress})
	if err != nil {
		panic("numbers and texts always encode: " + err.Error())
	}
	c.note("%s", line)
}

// progressNote writes a line for people to stderr, but not between the lines that a program reads.
func (c *cli) progressNote(format string, args ...any) {
	if _, ok := terminal(c.err); ok || c.output == "table" {
		c.note(format, args...)
	}
}

// ticker shows how far something is whose end isn't known: one changing line on a terminal, a line every 30 s elsewhere.
type ticker struct {
	c    *cli
	what string
	tty  bool
	out  io.Writer

	mu   sync.Mutex
	next time.Time
	open bool // a line stands on the terminal
}

func newTicker(c *cli, what string) *ticker {
	_, tty := terminal(c.err)
	t := &ticker{c: c, what: what, tty: tty, out: bare(c.err)}
	if !tty {
		t.next = time.Now().Add(lineEvery)
	}
	return t
}

func (t *ticker) set(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.next) {
		return
	}
	if !t.tty {
		t.next = now.Add(lineEvery)
		t.c.progressNote(t.what+": "+format, args...)
		return
	}
	t.next, t.open = now.Add(200*time.Millisecond), true
	fmt.Fprintf(t.out, "\r\x1b[K%s: %s", t.what, printable.Line(fmt.Sprintf(format, args...)))
}

func (t *ticker) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		fmt.Fprint(t.out, "\r\x1b[K")
	}
}
