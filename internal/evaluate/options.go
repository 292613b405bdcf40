package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aerie-rag/aerie/internal/retrieve"
)

// StandardArms returns the arms that show what packing, the tree, each mode and keywords are worth, with the leaves
// by similarity alone, which need no tree, first: the natural baseline. base holds the corpus and all other options; alpha
// is 1 but in the hybrid arm, which has the default options of a query.
func StandardArms(base retrieve.Request) []Arm {
	arm := func(name string, change func(*retrieve.Request)) Arm {
		req := base
		req.Alpha = 1
		change(&req)
		return Arm{Name: name, Request: req}
	}
	leaves, summaries := 0, 1
	return []Arm{
		arm("leaf/similarity", func(r *retrieve.Request) { r.MaxLevel, r.Pack = &leaves, retrieve.Similarity }),
		arm("leaf/coverage", func(r *retrieve.Request) { r.MaxLevel, r.Pack = &leaves, retrieve.Coverage }),
		arm("collapsed/similarity", func(r *retrieve.Request) { r.Pack = retrieve.Similarity }),
		arm("collapsed/coverage", func(r *retrieve.Request) { r.Pack = retrieve.Coverage }),
		arm("boost 1.5", func(r *retrieve.Request) { r.Mode, r.Boost = retrieve.Boost, 1.5 }),
		arm("filter level 1+", func(r *retrieve.Request) { r.Mode, r.MinLevel = retrieve.Filter, &summaries }),
		arm("traversal", func(r *retrieve.Request) { r.Mode = retrieve.Traversal }),
		arm("hybrid 0.7", func(r *retrieve.Request) { r.Pack, r.Alpha = retrieve.Coverage, 0.7 }),
	}
}

// ReadArms reads arms from a file: a JSON array of objects, or the objects one after another, each with a name, an optional
// group, and options by their JSON names in retrieve.Request, the corpus among them. Options that an object lacks
// are those of base; an option that doesn't exist is an error that names the arm.
func ReadArms(r io.Reader, base retrieve.Request) ([]Arm, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("evaluate: arms: %w", err)
	}
	var objects []json.RawMessage
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '[' {
		err = json.Unmarshal(trimmed, &objects)
	} else {
		for decoder := json.NewDecoder(bytes.NewReader(raw)); err == nil; {
			var object json.RawMessage
			if err = decoder.Decode(&object); err == nil {
				objects = append(objects, object)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("evaluate: arms: %w", err)
	}
	if len(objects) == 0 {
		return nil, errors.New("evaluate: arms: there is none: JSON objects are wanted, each with a name")
	}
	arms := make([]Arm, len(objects))
	for i, object := range objects {
		if arms[i], err = decodeArm(object, base); err != nil {
			return nil, fmt.Errorf("evaluate: arms: number %d: %w", i+1, err)
		}
	}
	return arms, nil
}

// ParseArm reads an arm as it stands in a flag: NAME:OPTION=VALUE,OPTION=VALUE, such as "wide:mode=boost,boost=1.5";
// NAME alone is base under that name.
func ParseArm(text string, base retrieve.Request) (Arm, error) {
	name, options, _ := strings.Cut(text, ":")
	object := map[string]json.RawMessage{"name": quoted(strings.TrimSpace(name))}
	for option := range strings.SplitSeq(options, ",") {
		if option = strings.TrimSpace(option); option == "" {
			continue
		}
		key, value, ok := strings.Cut(option, "=")
		if !ok {
			return Arm{}, fmt.Errorf("evaluate: arm %q: %q is no OPTION=VALUE", name, option)
		}
		key = strings.ReplaceAll(strings.TrimSpace(key), "-", "_")
		if object[key] = json.RawMessage(strings.TrimSpace(value)); !json.Valid(object[key]) {
			object[key] = quoted(strings.TrimSpace(value))
		}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return Arm{}, fmt.Errorf("evaluate: arm %q: %w", name, err)
	}
	arm, err := decodeArm(raw, base)
	if err != nil {
		return Arm{}, fmt.Errorf("evaluate: %w", err)
	}
	return arm, nil
}

func quoted(s string) json.RawMessage {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return raw
}

// decodeArm reads one object over the options of base.
func decodeArm(object json.RawMessage, base retrieve.Request) (Arm, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return Arm{}, err
	}
	arm := Arm{Request: base}
	for key, to := range map[string]*string{"name": &arm.Name, "group": &arm.Group} {
		if raw, has := fields[key]; has {
			if err := json.Unmarshal(raw, to); err != nil {
				return Arm{}, fmt.Errorf("%s: %w", key, err)
			}
			delete(fields, key)
		}
	}
	if strings.TrimSpace(arm.Name) == "" {
		return Arm{}, errors.New("an arm has no name")
	}
	if _, has := fields["query"]; has {
		return Arm{}, fmt.Errorf("arm %q: query is set by the questions", arm.Name)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return Arm{}, err
	}
	// Decoding into what base points to would change it for all arms.
	arm.Request.MinLevel, arm.Request.MaxLevel = copied(base.MinLevel), copied(base.MaxLevel)
	arm.Request.Documents, arm.Request.Metadata = nil, nil
	if _, has := fields["documents"]; !has {
		arm.Request.Documents = base.Documents
	}
	if _, has := fields["metadata"]; !has {
		arm.Request.Metadata = base.Metadata
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&arm.Request); err != nil {
		return Arm{}, fmt.Errorf("arm %q: %w", arm.Name, err)
	}
	return arm, nil
}

func copied(p *int) *int {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
