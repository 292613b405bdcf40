package coordinator

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aerie-rag/aerie/internal/levels"
)

// Change is a setting that differs from the one that a tree or a build was made with.
type Change struct {
	Key, Was, Is string
}

// shaping are the keys that decide which tree comes out, each with the provider that reads it; "" is any.
var shaping = map[string]string{
	"clustering.mode": "", "clustering.seed": "", "clustering.threshold": "", "clustering.reduced_dimensionality": "",
	"clustering.max_cluster_tokens": "", "clustering.target_cluster_size": "", "clustering.max_clusters": "",
	"summaries.provider": "", "summaries.model": "openai", "summaries.context_tokens": "", "summaries.max_output_tokens": "",
	"summaries.prompt": "openai", "summaries.temperature": "openai", "summaries.extra": "openai",
	"summaries.embeddings.provider": "", "summaries.embeddings.model": "openai",
	"embeddings.provider": "", "embeddings.model": "openai", "embeddings.passage_prefix": "openai", "embeddings.extra": "openai",
	"build.scope": "", "build.keep_leaves": "", "build.min_chunks": "", "build.max_depth": "",
}

// Changes compares the settings that a tree or a build was made with with those of now, both by key; ordered by key. A key that
// either doesn't know is passed over, and so is one that its provider doesn't read.
func Changes(was, now map[string]string) []Change {
	var all []Change
	for _, key := range slices.Sorted(maps.Keys(shaping)) {
		before, known := was[key]
		after, set := now[key]
		if !known || !set || before == after {
			continue
		}
		if provider := shaping[key]; provider != "" {
			by := key[:strings.LastIndexByte(key, '.')] + ".provider"
			if was[by] != provider && now[by] != provider {
				continue
			}
		}
		all = append(all, Change{key, before, after})
	}
	return all
}

// keys are the names of what has changed.
func keys(changes []Change) []string {
	names := []string{}
	for _, c := range changes {
		names = append(names, c.Key)
	}
	return names
}

// said lists changes for a sentence.
func said(changes []Change) string {
	var parts []string
	for _, c := range changes {
		parts = append(parts, fmt.Sprintf("%s was %s, is %s", c.Key, short(c.Was), short(c.Is)))
	}
	if len(parts) == 0 {
		return "a version of aerie that makes plans or prompts in another way"
	}
	return strings.Join(parts, "; ")
}

// short cuts a value such as a prompt.
func short(value string) string {
	const most = 40
	if runes := []rune(value); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}

// plainValue is what needs no quotes in a shell.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9._:/-]+$`)

// flags writes settings as they were as flags; ok is false if one can't be written so.
func flags(changes []Change) (text string, ok bool) {
	var parts []string
	for _, c := range changes {
		if !plainValue.MatchString(c.Was) {
			return "", false
		}
		parts = append(parts, "--"+strings.NewReplacer(".", "-", "_", "-").Replace(c.Key)+"="+c.Was)
	}
	return strings.Join(parts, " "), len(parts) > 0
}

// SettingsError says that a build is unfinished which was begun with other settings, so that nothing can be done for it with these.
type SettingsError struct {
	Corpus, Build string
	Changes       []Change
	// Served says that the settings are those of a coordinator, which takes none from its clients.
	Served bool
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("build %s of corpus %s is unfinished and was begun with other settings: %s", e.Build, e.Corpus, said(e.Changes))
}

// Hint says which commands work.
func (e *SettingsError) Hint() string {
	anew := "aerie build --force builds anew with the settings of now, and pays for no call twice"
	text, ok := flags(e.Changes)
	switch {
	case len(e.Changes) > 0 && e.Served:
		return "a coordinator that is started with its settings goes on with it; " + anew
	case ok:
		return fmt.Sprintf("aerie build %s goes on with it; %s", text, anew)
	}
	return anew
}

// otherSettings is the error of a build that can't go on with the settings of now.
func (r *run) otherSettings() *SettingsError {
	return &SettingsError{Corpus: r.cfg.Corpus, Build: r.state.Build, Changes: Changes(r.state.Settings, r.cfg.Settings)}
}

// unfinishedOtherwise reports whether the newest build is unfinished and can't go on with the settings of now.
func (r *run) unfinishedOtherwise(record *levels.Corpus) bool {
	return r.state != nil && r.state.Resumable() && r.state.Config != r.configDigest() && r.state.Generation == record.Next()
}

// withSettings adds to a sentence on why nothing is built that the tree was built with other settings.
func withSettings(why string, record *levels.Corpus, now map[string]string) string {
	if record.Settings == nil {
		return why
	}
	changes := Changes(record.Settings.All, now)
	if len(changes) == 0 {
		return why
	}
	return fmt.Sprintf("%s; generation %d was built with other settings: %s; `aerie build --force` builds with those of now", why, record.Generation, said(changes))
}

// BuiltOtherwiseError says that a tree was built without its buried tasks and with other settings, so that trying these again with the
// settings of now would be another tree.
type BuiltOtherwiseError struct {
	Corpus     string
	Generation int
	Changes    []Change
	Served     bool // as in [SettingsError]
}

func (e *BuiltOtherwiseError) Error() string {
	return fmt.Sprintf("generation %d of corpus %s was built with other settings: %s", e.Generation, e.Corpus, said(e.Changes))
}

// Hint says which commands work.
func (e *BuiltOtherwiseError) Hint() string {
	anew := "aerie build --force builds anew with the settings of now"
	if text, ok := flags(e.Changes); ok && !e.Served {
		return fmt.Sprintf("aerie retry --failed %s tries them again in that tree; %s", text, anew)
	}
	return anew
}
