package access

import "testing"

// FuzzTokens reads any bytes as a tokens file: entries with a name, or an error that names the line, and no token but the right one
// is let in.
func FuzzTokens(f *testing.F) {
	token, line, err := Create("reader", Read, []string{"a", "b"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line + "\n# comment\n")
	f.Add("x write * sha256:00")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parse(text)
		if err != nil {
			return
		}
		for _, e := range all {
			if err := e.check(); err != nil {
				t.Errorf("%+v: %v", e.Grant, err)
			}
		}
		if _, ok := find(all, ""); ok {
			t.Errorf("nothing is let in by %q", text)
		}
		if _, ok := find(all, token+"x"); ok {
			t.Errorf("another token is let in by %q", text)
		}
	})
}
