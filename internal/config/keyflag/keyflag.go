// Package keyflag makes command-line flags of configuration keys.
//
// A flag keeps the text that was typed; package config reads and checks it, so that a wrong value is refused with the
// same sentence wherever it was set. A key can be typed as in aerie.yaml (--clustering.max_clusters), with dashes
// (--clustering-max-clusters), and without its section where that is unambiguous (--max-clusters). A command shows in
// its help those that matter there, under the shortest name; the others are hidden, since eighty lines of help help nobody.
package keyflag

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/config"
)

// Given holds the flags that were given, by key; it is what config.Options.Flags wants.
type Given map[string]config.Flag

type value struct {
	given Given
	key   config.Key
	name  string // with its dashes
}

func (v *value) String() string { return "" }
func (v *value) Type() string   { return v.key.Type() }

// Set keeps the text.
func (v *value) Set(text string) error {
	v.given[v.key.Name] = config.Flag{Name: v.name, Value: text}
	return nil
}

// AddOne makes a flag of one key under a name of its own.
func AddOne(flags *pflag.FlagSet, given Given, key config.Key, name string) {
	f := flags.VarPF(&value{given: given, key: key, name: "--" + name}, name, "", key.Usage)
	f.DefValue = defaultText(key)
}

// Add makes flags of the keys in some sections, such as "clustering"; "" stands for all sections. shown lists the
// keys that stand in help. A key without a section is left to [AddOne]. Flags that the set has already keep their
// names: then the key can be typed with its section only. Add sets how the flag set normalizes names, so it is called
// once for each set.
func Add(flags *pflag.FlagSet, given Given, sections []string, shown ...string) {
	uses := map[string]int{}
	for _, k := range config.Keys() {
		uses[short(k)]++
	}
	aliases := map[string]string{}
	for _, k := range config.Keys() {
		name, brief := k.Flag(), short(k)
		if k.Section() == "" || !within(k, sections) || flags.Lookup(name) != nil {
			continue
		}
		if uses[brief] == 1 && flags.Lookup(brief) == nil {
			if slices.Contains(shown, k.Name) {
				name, brief = brief, name
			}
			aliases[brief] = name
		}
		f := flags.VarPF(&value{given: given, key: k, name: "--" + name}, name, "", k.Usage)
		f.Hidden = !slices.Contains(shown, k.Name)
		f.DefValue = defaultText(k)
		if k.Bool {
			f.NoOptDefVal = "true"
		}
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.NewReplacer(".", "-", "_", "-").Replace(name)
		if target, ok := aliases[name]; ok {
			name = target
		}
		return pflag.NormalizedName(name)
	})
}

func short(k config.Key) string { return strings.ReplaceAll(k.Short(), "_", "-") }

func within(k config.Key, sections []string) bool {
	for _, s := range sections {
		if s == "" || strings.HasPrefix(k.Name, s+".") {
			return true
		}
	}
	return false
}

// defaultText is what help shows; "" shows nothing.
func defaultText(k config.Key) string {
	switch d := k.Default(); d {
	case `""`, "{}", "[]":
		return ""
	default:
		return d
	}
}
