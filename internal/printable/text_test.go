package printable

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext":                            "plain\n\ttext",
		"a\x1b[2J\x1b[1;31mb\x1b[0m":               "ab",
		"\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y": "xy",
		"\u009b31mx\u009d0;t\u009cy":               "xy",
		"\x1bPq#0\x1b\\x\x1bcy\x1b(Bz":             "xyz",
		"a\x00b\x7fc\x08d\re\r\nf":                 "abcde\nf",
		"a\u202eb\u2066c\u2028d":                   "abcd",
		"a\x1b[":                                   "a", // unfinished
		"Größe 苍鹭 👩‍👩‍👧":                           "Größe 苍鹭 👩‍👩‍👧",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[\x1b[31mm")
	f.Fuzz(func(t *testing.T, text string) {
		got := Text(text)
		if strings.IndexFunc(got, steers) >= 0 {
			t.Errorf("%q became %q", text, got)
		}
		if again := Text(got); again != got {
			t.Errorf("%q became %q, and that %q", text, got, again)
		}
	})
}
