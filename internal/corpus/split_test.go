package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	c := NewCounter()
	c.Count("x")
	for _, g := range []string{"/work/shared/data/medical/corpus.txt", "/work/shared/data/peps/*", "/work/shared/data/zh/*"} {
		files, _ := filepath.Glob(g)
		n, tok, bytes, tiny, over := 0, 0, 0, 0, 0
		t0 := time.Now()
		for _, f := range files {
			b, _ := os.ReadFile(f)
			bytes += len(b)
			for _, ch := range Split(string(b), 100, c) {
				n++
				tok += ch.Tokens
				if ch.Tokens < 25 {
					tiny++
				}
				if ch.Tokens > 100 {
					over++
				}
			}
		}
		d := time.Since(t0)
		fmt.Println(g, len(files), "chunks", n, "mean", float64(tok)/float64(n), "tiny", tiny, "over", over, d, float64(bytes)/1e6/d.Seconds(), "MB/s")
	}
}
