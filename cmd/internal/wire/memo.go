package wire

import "sync"

// memo remembers what was made under each key. Errors aren't remembered.
type memo[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

// get returns what is known under a key, or makes it. Two callers may make it at once; the first one's is kept.
func (m *memo[T]) get(key string, build func() (T, error)) (T, error) {
	m.mu.Lock()
	v, ok := m.known[key]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	made, err := build()
	if err != nil {
		return made, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.known[key]; ok {
		return v, nil
	}
	if m.known == nil {
		m.known = map[string]T{}
	}
	m.known[key] = made
	return made, nil
}
