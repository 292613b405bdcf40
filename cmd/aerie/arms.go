package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/evaluate"
	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/store"
	"github.com/aerie-rag/aerie/internal/tree"
)

// armSpec is an arm as it was written in a flag or a file.
type armSpec struct {
	where   string // for messages: the flag, or the file with its line
	name    string
	bare    bool // nothing but a name was written: it must be that of a standard arm
	options []armOption
}

// armOption is one option with its values; documents have several.
type armOption struct {
	where, key string
	values     []string
}

// armFromFlag reads "NAME: OPTION=VALUE OPTION=VALUE …", where commas may stand between the options too.
func armFromFlag(text string) (armSpec, error) {
	name, rest, hasOptions := strings.Cut(text, ":")
	spec := armSpec{where: fmt.Sprintf("--arm %q", text), name: strings.TrimSpace(name), bare: !hasOptions}
	if spec.name == "" {
		return spec, usagef("", `%s has no name; write "NAME: OPTION=VALUE OPTION=VALUE"`, spec.where)
	}
	for _, pair := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			return spec, usagef("", "%s: %q is not OPTION=VALUE", spec.where, pair)
		}
		spec.add(armOption{where: spec.where, key: key, values: []string{value}})
	}
	return spec, nil
}

// add appends an option, or a value to the same option.
func (s *armSpec) add(o armOption) {
	o.key = strings.ReplaceAll(o.key, "-", "_")
	if i := slices.IndexFunc(s.options, func(p armOption) bool { return p.key == o.key }); i >= 0 {
		s.options[i].values = append(s.options[i].values, o.values...)
		return
	}
	s.options = append(s.options, o)
}

// armsFromFile reads a YAML (or JSON) file: a list of arms, or a key arms that holds it. An arm is a name, or a mapping of name and
// options.
func armsFromFile(path string) ([]armSpec, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("", "--arms: %w", err)
	}
	var document yaml.Node
	switch err := yaml.NewDecoder(bytes.NewReader(raw)).Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, usagef("", "%s is empty; it must list arms, each with a name and options", path)
	case err != nil:
		return nil, usagef("", "%s is not YAML: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	list := document.Content[0]
	if list.Kind == yaml.MappingNode {
		for i := 0; i < len(list.Content); i += 2 {
			if key := list.Content[i]; key.Value != "arms" || i > 0 {
				return nil, usagef("", "%s:%d: %q is not known here; the only key is arms, a list", path, key.Line, key.Value)
			}
		}
		if len(list.Content) == 2 {
			list = list.Content[1]
		}
	}
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return nil, usagef("", "%s:%d: a list of arms is wanted, each with a name and options", path, list.Line)
	}
	var specs []armSpec
	for _, node := range list.Content {
		spec, err := armFromNode(path, node)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

func armFromNode(path string, node *yaml.Node) (armSpec, error) {
	at := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	spec := armSpec{where: at(node)}
	if node.Kind == yaml.ScalarNode {
		spec.name, spec.bare = node.Value, true
		return spec, nil
	}
	if node.Kind != yaml.MappingNode {
		return spec, usagef("", "%s: an arm is a name, or a name with options", spec.where)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		where := at(node.Content[i])
		if slices.ContainsFunc(spec.options, func(o armOption) bool { return o.key == key }) || key == "name" && spec.name != "" {
			return spec, usagef("", "%s: %s is set twice", where, key)
		}
		switch {
		case key == "name":
			spec.name = value.Value
		case value.Kind == yaml.ScalarNode:
			spec.add(armOption{where: where, key: key, values: []string{value.Value}})
		case key == "documents" && value.Kind == yaml.SequenceNode:
			for _, n := range value.Content {
				spec.add(armOption{where: where, key: key, values: []string{n.Value}})
			}
		case key == "metadata" && value.Kind == yaml.MappingNode:
			for j := 0; j+1 < len(value.Content); j += 2 {
				spec.add(armOption{where: where, key: "metadata." + value.Content[j].Value, values: []string{value.Content[j+1].Value}})
			}
		default:
			return spec, usagef("", "%s: %s must be a single value", where, key)
		}
	}
	if spec.name == "" {
		return spec, usagef("", "%s: the arm has no name", spec.where)
	}
	return spec, nil
}

// arm makes a request of what was written. Vectors alone are compared unless it says otherwise.
func (s *armSpec) arm(corpus string, standard []evaluate.Arm) (evaluate.Arm, error) {
	if s.bare {
		return s.standardArm(standard)
	}
	arm := evaluate.Arm{Name: s.name, Request: retrieve.Request{Corpus: corpus}}
	for _, o := range s.options {
		if err := o.set(&arm.Request); err != nil {
			return arm, err
		}
	}
	check := arm.Request
	check.Query = "any"
	settled, err := check.Settled()
	if err == nil && check.Alpha == nil && *settled.Mode != retrieve.Traversal {
		arm.Request.Alpha, check.Alpha = new(1.0), new(1.0)
		_, err = check.Settled()
	}
	var unused *retrieve.UnusedError
	if errors.As(err, &unused) {
		return arm, usagef("", "%s: %w; leave it out or choose another", s.where, err)
	}
	if err != nil {
		return arm, usagef("", "%s: %w", s.where, err)
	}
	return arm, nil
}

func (s *armSpec) standardArm(standard []evaluate.Arm) (evaluate.Arm, error) {
	names := make([]string, len(standard))
	for i, arm := range standard {
		if names[i] = arm.Name; arm.Name == s.name {
			return arm, nil
		}
	}
	return evaluate.Arm{}, usagef(`an arm of your own is written "NAME: OPTION=VALUE OPTION=VALUE"`,
		"%s: %q is not a standard arm; did you mean %q?", s.where, s.name, config.Nearest(s.name, names))
}

// armOptionNames are the options of an arm: the corpus, and those of a query, by their JSON names.
func armOptionNames() []string {
	names := slices.DeleteFunc(retrieve.Names(), func(name string) bool { return name == "budget" || name == "explain" })
	return append([]string{"corpus", "documents", "metadata", "where"}, names...)
}

// set gives the request the option.
func (o armOption) set(req *retrieve.Request) error {
	if key, ok := strings.CutPrefix(o.key, "metadata."); ok && key != "" {
		value, err := store.Scalar(o.values[0])
		if err != nil {
			return usagef("", "%s: %s: %w", o.where, o.key, err)
		}
		metadata := tree.Metadata{key: value}
		for k, v := range req.Metadata {
			metadata[k] = v
		}
		req.Metadata = metadata
		return o.once()
	}
	switch o.key {
	case "budget":
		return usagef("", "%s: budgets are those of --budget, for all arms", o.where)
	case "query":
		return usagef("", "%s: the queries are those of the questions file", o.where)
	case "metadata":
		return usagef("", "%s: metadata is written metadata.KEY=VALUE", o.where)
	case "documents":
		req.Documents = o.values
		return nil
	case "where":
		for _, text := range o.values {
			w, err := store.ParseWhere(text)
			if err != nil {
				return usagef("", "%s: where %w", o.where, err)
			}
			req.Where = append(slices.Clone(req.Where), w)
		}
		return nil
	}
	if !slices.Contains(armOptionNames(), o.key) {
		return usagef("", "%s: %s is not an option of an arm; did you mean %s?", o.where, o.key, config.Nearest(o.key, armOptionNames()))
	}
	if err := o.once(); err != nil {
		return err
	}
	if o.key == "corpus" {
		req.Corpus = o.values[0]
		return nil
	}
	if err := o.oneOf(o.values[0]); err != nil {
		return err
	}
	if err := req.Set(o.key, o.values[0]); err != nil {
		return usagef("", "%s: %w", o.where, err)
	}
	return nil
}

func (o armOption) once() error {
	if len(o.values) > 1 {
		return usagef("", "%s: %s is set twice", o.where, o.key)
	}
	return nil
}

// oneOf checks the options that are words.
func (o armOption) oneOf(text string) error {
	words := map[string]string{
		"mode": oneOfWords(retrieve.Modes()), "pack": oneOfWords(retrieve.Packs()), "fusion": oneOfWords(retrieve.Fusions()),
	}[o.key]
	valid := strings.Split(words, " | ")
	if words == "" || slices.Contains(valid, text) {
		return nil
	}
	return usagef("", "%s: %s is %q; it must be one of %s; did you mean %s?", o.where, o.key, text, strings.Join(valid, ", "), config.Nearest(text, valid))
}
