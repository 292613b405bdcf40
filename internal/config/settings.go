package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Setting is one effective value, for people and for the record of a tree.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // secrets masked
	Origin string `json:"origin"`
}

// Text returns the value on one line.
func (s Setting) Text() string {
	switch v := s.Value.(type) {
	case string:
		if v == "" || strings.ContainsAny(v, "\n\t") || strings.TrimSpace(v) != v {
			return fmt.Sprintf("%q", v)
		}
		return v
	case bool, int, uint64, float64:
		return fmt.Sprint(v)
	}
	b, err := json.Marshal(s.Value)
	if err != nil {
		return fmt.Sprint(s.Value)
	}
	return string(b)
}

// Settings returns every key with its effective value, in the order of [Keys].
func (c *Config) Settings(o Origins) []Setting {
	var all []Setting
	for _, k := range Keys() {
		all = append(all, Setting{Key: k.Name, Value: k.shown(c), Origin: o.Of(k.Name).String()})
	}
	return all
}

// Map returns every setting as text by key, secrets left out: what is kept beside a tree.
func (c *Config) Map() map[string]string {
	m := map[string]string{}
	for _, k := range Keys() {
		if !k.Secret {
			m[k.Name] = Setting{Value: k.shown(c)}.Text()
		}
	}
	return m
}
