package corpus

import (
	"fmt"
	"os"
	"testing"
)

func TestShow(t *testing.T) {
	c := NewCounter()
	for _, f := range []string{"/work/shared/data/peps/pep-0008.rst", "/work/shared/data/peps/pep-0204.rst", "/work/shared/data/zh/ch08-02-strings.md"} {
		b, _ := os.ReadFile(f)
		for i, ch := range Split(string(b), 100, c) {
			if i < 45 {
				fmt.Printf("---- %d %d\n%s\n", i, ch.Tokens, ch.Text)
			}
		}
	}
}
