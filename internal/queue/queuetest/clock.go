package queuetest

import (
	"slices"
	"sync"
	"time"
)

// Clock tells the time to Memory.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

// wallClock is the clock of package time; inside a testing/synctest bubble it is the bubble's.
type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// ManualClock stands still until it is told to advance.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []manualTimer
}

type manualTimer struct {
	at time.Time
	c  chan time.Time
}

// NewManualClock returns a clock that shows start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{now: start} }

// Now implements Clock.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After implements Clock.
func (c *ManualClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := manualTimer{at: c.now.Add(d), c: make(chan time.Time, 1)}
	if d <= 0 {
		timer.c <- c.now
		return timer.c
	}
	c.timers = append(c.timers, timer)
	return timer.c
}

// Advance moves the clock forward and fires the timers that are due.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(timer manualTimer) bool {
		if timer.at.After(c.now) {
			return false
		}
		timer.c <- c.now
		return true
	})
}
