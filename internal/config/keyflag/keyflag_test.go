package keyflag

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/config"
)

func parse(t *testing.T, args ...string) (Given, error) {
	t.Helper()
	flags, given := pflag.NewFlagSet("test", pflag.ContinueOnError), Given{}
	flags.String("tokens", "", "the command's own")
	Add(flags, given, []string{"chunking", "clustering", "build", "summaries", "embeddings"}, "clustering.max_clusters")
	return given, flags.Parse(args)
}

func TestForms(t *testing.T) {
	want := config.Flag{Name: "--max-clusters", Value: "7"}
	for _, form := range []string{"--max-clusters", "--max_clusters", "--clustering-max-clusters", "--clustering.max_clusters"} {
		given, err := parse(t, form, "7")
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if diff := cmp.Diff(Given{"clustering.max_clusters": want}, given); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", form, diff)
		}
	}
	// A key that isn't shown is a flag all the same.
	given, err := parse(t, "--scope=document", "--keep-leaves=false", "--summaries.embeddings.base_url", "http://h")
	if err != nil || len(given) != 3 || given["build.keep_leaves"].Value != "false" {
		t.Errorf("%v %v", given, err)
	}
	// --tokens is the command's own, --model could be two keys.
	if given, err := parse(t, "--tokens", "3"); err != nil || len(given) != 0 {
		t.Errorf("%v %v", given, err)
	}
	if _, err := parse(t, "--model", "m"); err == nil {
		t.Error("--model was taken, but two sections have one")
	}
	if given, err := parse(t, "--chunking-tokens", "30"); err != nil || given["chunking.tokens"].Value != "30" {
		t.Errorf("%v %v", given, err)
	}
}

func TestExplain(t *testing.T) {
	flags, given := pflag.NewFlagSet("test", pflag.ContinueOnError), Given{}
	flags.Int("depth", 0, "")
	Add(flags, given, []string{"clustering"}, "clustering.max_clusters")
	for arg, want := range map[string]string{
		"--max-clutsers=1": "--max-clutsers is not a flag of aerie x; did you mean --max-clusters?",
		"--threshhold=1":   "did you mean --clustering-threshold?",
		"--depth=deep":     `--depth is "deep"; it must be a whole number`,
		"--max-clusters":   "--max-clusters needs a value: a whole number",
		"-z":               "-z is not a flag of aerie x",
	} {
		err := Explain(flags, "aerie x", flags.Parse([]string{arg}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}
