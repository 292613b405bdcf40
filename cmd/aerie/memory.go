package main

import (
	"os"
	"sync"

	"github.com/aerie-rag/aerie/cmd/internal/wire"
)

// memoryMeter takes the peak of resident memory for each stage of a clustering. Linux keeps the peak of a process
// and lets it be set back; elsewhere, and where that isn't allowed, peaks are those since the start, or 0.
type memoryMeter struct {
	mu      sync.Mutex
	current string
	peaks   map[string]int64
}

func newMemoryMeter() *memoryMeter {
	m := &memoryMeter{peaks: map[string]int64{}, current: "start"}
	return m
}

// progress is told of every step; the peak is taken when the stage changes.
func (m *memoryMeter) progress(stage string, _, _ int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stage != m.current {
		m.take()
		m.current = stage
	}
}

func (m *memoryMeter) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take()
}

// take notes the peak of the current stage and sets it back.
func (m *memoryMeter) take() {
	peak := wire.ReadField("/proc/self/status", "VmHWM:") << 10
	m.peaks[m.current] = max(m.peaks[m.current], peak)
	// 5 sets the peak back (proc(5)); if that is refused, the next peak just is no lower.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

func (m *memoryMeter) of(stage string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peaks[stage]
}

func (m *memoryMeter) peak() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := int64(0)
	for _, p := range m.peaks {
		most = max(most, p)
	}
	return most
}
