package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Template returns a commented aerie.yaml that holds every key at its default. Secrets are commented out, since
// they are better kept in a file of their own or in the environment.
func Template() string {
	var b strings.Builder
	b.WriteString("# Settings of aerie. Every key here is at its default and may be left out.\n" +
		"# Stronger than this file: the environment (AERIE_SECTION_KEY, such as AERIE_CLUSTERING_SEED) and flags\n" +
		"# (--section-key, such as --clustering-seed). `aerie config show` tells what counts, and why.\n")
	open := []string(nil)
	for _, k := range Keys() {
		parts := strings.Split(k.Name, ".")
		sections, short := parts[:len(parts)-1], parts[len(parts)-1]
		for i, section := range sections {
			if i < len(open) && open[i] == section {
				continue
			}
			if i == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), section)
			open = append(open[:i:i], section)
		}
		open = open[:len(sections)]
		indent := strings.Repeat("  ", len(sections))
		if k.Secret {
			indent += "# "
		}
		fmt.Fprintf(&b, "%-38s # %s\n", indent+short+": "+literal(k), k.Usage)
	}
	return b.String()
}

// literal writes a key's default as YAML on one line.
func literal(k Key) string {
	switch v := k.shown(Default()).(type) {
	case string:
		if v == "" {
			return `""`
		}
		b, err := yaml.Marshal(v)
		if err != nil {
			panic("config: a text always encodes: " + err.Error())
		}
		return strings.TrimSpace(string(b))
	case []string:
		return "[]"
	case map[string]any, map[string]Price:
		return "{}"
	default:
		return fmt.Sprint(v)
	}
}
