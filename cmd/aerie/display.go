package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// display shows a build on stderr while it runs: one bar for each level on a terminal, a line every 30 s elsewhere. There
// is no bar for the whole, because how many levels there will be isn't known before the last one.
type display struct {
	c    *cli
	look func(context.Context) (glance, error)

	mu    sync.Mutex // guards what follows
	bars  *mpb.Progress
	level map[int]*levelBar
	foot  *mpb.Bar
	last  glance
}

type levelBar struct {
	bar   *mpb.Bar
	since time.Time // when this display saw the level first
	from  int       // how far it was then
}

// lineEvery is how often a line is written off a terminal.
const lineEvery = 30 * time.Second

func newDisplay(c *cli, look func(context.Context) (glance, error)) *display {
	d := &display{c: c, look: look, level: map[int]*levelBar{}}
	if _, ok := terminal(c.err); ok {
		d.bars = mpb.New(mpb.WithOutput(c.err), mpb.WithRefreshRate(150*time.Millisecond))
		c.logTo.point(d.bars)
	}
	return d
}

// event tells of a step in one sentence.
func (d *display) event(text string) {
	d.mu.Lock()
	bars := d.bars
	d.mu.Unlock()
	if bars != nil {
		if _, err := fmt.Fprintln(bars, text); err == nil {
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
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = g
	for _, l := range g.levels {
		if l.expected == 0 {
			continue
		}
		b := d.level[l.level]
		if b == nil {
			b = &levelBar{since: time.Now(), from: l.done + l.buried}
			b.bar = d.addBar(l.level, l.expected)
			d.level[l.level] = b
		}
		b.bar.SetTotal(int64(l.expected), false)
		b.bar.SetCurrent(int64(l.done + l.buried))
	}
	if d.foot == nil {
		d.foot = d.bars.New(0, mpb.NopStyle(), mpb.BarPriority(1<<20), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			d.mu.Lock()
			defer d.mu.Unlock()
			return footText(d.last)
		})))
	}
}

// addBar adds the bar of a level. d.mu is held; the decorators take it when they are drawn, in mpb's own goroutine.
func (d *display) addBar(level, total int) *mpb.Bar {
	style := mpb.BarStyle().Lbound(" ").Rbound(" ").Filler("━").Tip("━").Padding("─")
	return d.bars.New(int64(total), style, mpb.BarPriority(level), mpb.BarWidth(32),
		mpb.PrependDecorators(decor.Name(fmt.Sprintf("level %d", level), decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return d.barText(level) })))
}

func (d *display) barText(level int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.last.levels {
		if l.level != level {
			continue
		}
		text := levelText(l)
		if b := d.level[level]; b != nil {
			done := l.done + l.buried - b.from
			left := l.expected - l.done - l.buried
			if passed := time.Since(b.since); done > 0 && left > 0 && passed > 2*time.Second {
				text += ", about " + (passed * time.Duration(left) / time.Duration(done)).Round(time.Second).String() + " left"
			}
		}
		return text
	}
	return ""
}

func (d *display) finish() {
	d.mu.Lock()
	foot, level := d.foot, d.level
	d.mu.Unlock()
	if foot != nil {
		foot.Abort(true)
	}
	for _, b := range level {
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
	fmt.Fprintf(c.err, "%s\n", line)
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
	t := &ticker{c: c, what: what, tty: tty, out: c.err}
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
	fmt.Fprintf(t.out, "\r\x1b[K%s: %s", t.what, fmt.Sprintf(format, args...))
}

func (t *ticker) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		fmt.Fprint(t.out, "\r\x1b[K")
	}
}
