//go:build !amd64

package kernel

// Best returns the fastest loops this machine can run.
func Best() *Set { return Portable() }

// All returns every implementation this machine can run, the portable one first.
func All() []*Set { return []*Set{Portable()} }
