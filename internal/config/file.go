package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile takes every key that a YAML file names.
func readFile(cfg *Config, origins Origins, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return &Error{Where: path, Hint: "aerie init writes one",
			problem: fmt.Sprintf("the configuration file can't be read: %v", err)}
	}
	r := fileReader{cfg: cfg, origins: origins, path: path, keys: map[string]Key{}, sections: map[string]bool{"": true}}
	for _, k := range Keys() {
		r.keys[k.Name] = k
		for s := k.Section(); s != ""; s = (Key{Name: s}).Section() {
			r.sections[s] = true
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	var document yaml.Node
	err = decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil // nothing, or comments only
	}
	if err != nil {
		return &Error{Where: path, problem: fmt.Sprintf("%s is not YAML: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if decoder.Decode(new(yaml.Node)) == nil {
		return &Error{Where: path, problem: path + " holds more than one YAML document; keep one"}
	}
	return r.section("", document.Content[0])
}

type fileReader struct {
	cfg      *Config
	origins  Origins
	path     string
	keys     map[string]Key
	sections map[string]bool
}

func (r *fileReader) where(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.path, n.Line) }

// section reads the mapping of one section; "" is the whole file.
func (r *fileReader) section(section string, n *yaml.Node) error {
	n = target(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil // "clustering:" with every key commented out
	}
	if n.Kind != yaml.MappingNode {
		name := section
		if name == "" {
			name = "the file"
		}
		return &Error{Key: section, Where: r.where(n),
			problem: fmt.Sprintf("%s%s must hold keys with values, such as %s", name, wherePlace, r.example(section))}
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		path := name.Value
		if section != "" {
			path = section + "." + path
		}
		if line, twice := seen[path]; twice {
			return &Error{Key: path, Where: r.where(name), problem: fmt.Sprintf("%s is set twice%s; it stands in line %d too", path, wherePlace, line)}
		}
		seen[path] = name.Line
		if err := r.entry(section, path, name, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *fileReader) entry(section, path string, name, value *yaml.Node) error {
	if r.sections[path] {
		return r.section(path, value)
	}
	k, ok := r.keys[path]
	if !ok {
		return &Error{Key: path, Where: r.where(name),
			problem: fmt.Sprintf("%s is not a key%s; did you mean %s?", path, wherePlace, r.nearest(section, path))}
	}
	value = target(value)
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		return nil
	case value.Kind == yaml.ScalarNode:
		return set(r.cfg, r.origins, k, value.Value, Origin{FromFile, r.where(value)})
	default:
		if err := setTree(k.field(r.cfg), value); err != nil {
			return typeError(k, strings.TrimSpace(flow(value)), r.where(value), err)
		}
		r.origins[k.Name] = Origin{FromFile, r.where(value)}
		return nil
	}
}

// nearest looks among the key's section and its keys first: a key is misspelt more often than misplaced.
func (r *fileReader) nearest(section, path string) string {
	var near, all []string
	for name := range r.keys {
		all = append(all, name)
		if (Key{Name: name}).Section() == section {
			near = append(near, name)
		}
	}
	for name := range r.sections {
		if name != "" && (Key{Name: name}).Section() == section {
			near = append(near, name)
		}
	}
	slices.Sort(near)
	slices.Sort(all)
	short := (Key{Name: path}).Short()
	for _, name := range all {
		if (Key{Name: name}).Short() == short {
			return name
		}
	}
	if best := Nearest(path, near); edits(best, path) <= 1+len(short)/2 {
		return best
	}
	return Nearest(path, append(near, all...))
}

func (r *fileReader) example(section string) string {
	for _, k := range Keys() {
		if k.Section() == section && section != "" {
			return fmt.Sprintf("{%s: %v}", k.Short(), k.shown(Default()))
		}
	}
	return `"corpus: default"`
}

// target follows an alias to what it stands for.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// flow writes a node on one line.
func flow(n *yaml.Node) string {
	c := *n
	c.Style = yaml.FlowStyle
	b, err := yaml.Marshal(&c)
	if err != nil {
		return ""
	}
	return string(b)
}
