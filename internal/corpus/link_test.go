package corpus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestA24Links: links in a folder lead to what is in it, and no further; a link that was named itself is followed.
func TestA24Links(t *testing.T) {
	top := t.TempDir()
	outside, folder := filepath.Join(top, "outside"), filepath.Join(top, "folder")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"outside/secret.md": "Secret.", "folder/own.md": "Own.", "folder/sub/deep.md": "Deep.", "folder/.hidden/key.md": "Hidden.", "folder-beside/x.md": "Beside.",
	} {
		must(os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o700))
		must(os.WriteFile(filepath.Join(top, path), []byte(text), 0o600))
	}
	for name, target := range map[string]string{
		"passwd.md": "/etc/passwd", "absolute.md": filepath.Join(outside, "secret.md"), "up.md": "../outside/secret.md", "round.md": "sub/../../outside/secret.md",
		"beside.md": "../folder-beside/x.md", "sub/up.md": "../../outside/secret.md", "outside": outside, "chain.md": "up.md", "hidden.md": ".hidden/key.md",
		"inside.md": "sub/deep.md", "inside-absolute.md": filepath.Join(folder, "own.md"), "sub/back.md": "../own.md", "self": ".", "up-and-in.md": "../folder/own.md",
	} {
		must(os.Symlink(target, filepath.Join(folder, name)))
	}
	link := filepath.Join(top, "named")
	must(os.Symlink(folder, link))
	for _, root := range []string{folder, link} {
		var got read
		must(Read(t.Context(), []string{root}, got.options(root), got.take))
		texts := map[string]string{}
		for _, d := range got.Documents {
			texts[d.ID] = d.Text
			if !strings.HasPrefix(d.Source, root) {
				t.Errorf("source %s isn't below %s", d.Source, root)
			}
		}
		want := map[string]string{
			"own.md": "Own.", "sub/deep.md": "Deep.", "inside.md": "Deep.", "inside-absolute.md": "Own.", "sub/back.md": "Own.", "up-and-in.md": "Own.",
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Errorf("%s (-want +got)\n%s", root, diff)
		}
		if len(got.Problems) > 0 {
			t.Errorf("%+v", got.Problems)
		}
		skipped := map[string]int{}
		for _, reason := range got.Skipped {
			skipped[reason]++
		}
		if diff := cmp.Diff(map[string]int{SkipLink: 9, SkipSpecial: 1}, skipped); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	// A file that is a link and was named.
	var got read
	must(Read(t.Context(), []string{filepath.Join(folder, "up.md")}, got.options(folder), got.take))
	if len(got.Documents) != 1 || got.Documents[0].Text != "Secret." {
		t.Errorf("%+v", got)
	}
}

// TestA24PutInItsPlace: a file that becomes a link between the look and the reading is not followed out of the folder.
func TestA24PutInItsPlace(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret.md")
	for _, path := range []string{filepath.Join(dir, "a.md"), filepath.Join(dir, "b.md"), secret} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got read
	err := Read(t.Context(), []string{dir}, got.options(dir), func(d Document) error {
		if err := os.Remove(filepath.Join(dir, "b.md")); err != nil {
			return err
		}
		return os.Symlink(secret, filepath.Join(dir, "b.md"))
	})
	if err != nil || len(got.Problems) != 1 || !strings.HasSuffix(got.Problems[0].Source, "b.md") {
		t.Errorf("%v, %+v", err, got.Problems)
	}
}
