package wire

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// AvailableMemory returns how much memory this process may plan to use: what the machine has available, or what
// its control group or GOMEMLIMIT leaves, whichever is least. 0 means that nobody knows.
func AvailableMemory() int64 {
	least := int64(math.MaxInt64)
	if kb := ReadField("/proc/meminfo", "MemAvailable:"); kb > 0 {
		least = kb << 10
	}
	for _, dir := range controlGroups() {
		limit, used := readNumber(filepath.Join(dir, "memory.max")), readNumber(filepath.Join(dir, "memory.current"))
		if limit > 0 {
			// Clean pages of files count as used, and go when they are needed.
			used -= ReadField(filepath.Join(dir, "memory.stat"), "inactive_file")
			least = min(least, max(limit-max(used, 0), 1))
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		least = min(least, limit)
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// controlGroups lists the folders of the process's control group (version 2) and those above it: each may set a limit.
func controlGroups() []string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			for dir := filepath.Join("/sys/fs/cgroup", path); strings.HasPrefix(dir, "/sys/fs/cgroup"); dir = filepath.Dir(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// readNumber reads a file that holds one number; 0 if it can't, or holds "max".
func readNumber(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// ReadField reads the number after a name in a file of lines such as "VmHWM:  1234 kB"; 0 if there is none.
func ReadField(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) >= 2 && string(fields[0]) == name {
			v, err := strconv.ParseInt(string(fields[1]), 10, 64)
			if err != nil {
				return 0
			}
			return v
		}
	}
	return 0
}
