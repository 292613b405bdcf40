package main

import (
	"math/rand/v2"
	"os"
	"strings"
)

// drawFile writes a file that means harm, and returns what it is, where, and how many bytes it is unpacked; "" if it can't be written.
func drawFile(r *rand.Rand, path string) (name, written string, bytes int) {
	var data []byte
	switch r.IntN(6) {
	case 0:
		name, path = "packed file", path+pick(r, ".md", ".jsonl", ".html", ".txt")+pick(r, ".gz", ".zst")
		bytes = size(r, 1<<30)
		data = packed(r, bytes)
	case 1:
		name, path, data = "page", path+".html", []byte(page(r))
	case 2:
		name, path, data = "text", path+pick(r, ".md", ".txt", ".rst"), []byte(text(r))
	case 3:
		var b strings.Builder
		for range 1 + r.IntN(5) {
			b.WriteString(line(r) + "\n")
		}
		name, path, data = "lines of a file", path+".jsonl", []byte(b.String())
	case 4:
		name, path, data = "junk", path+pick(r, ".md", ".html", ".jsonl", ".md.gz", ".jsonl.zst"), junk(r, size(r, 4<<20))
	default:
		name, path = "encoding", path+pick(r, ".md", ".html", ".jsonl")
		data = []byte(pick(r, "\xff\xfe", "\xfe\xff", "\xef\xbb\xbf", "\x00", "\xed\xa0\x80", "<meta charset=utf-7>+ADw-", "<meta charset=hz-gb-2312>~{") + text(r))
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return name, "", 0
	}
	return name, path, max(bytes, len(data))
}
