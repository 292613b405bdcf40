package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultFile is read when no file is named, if it is there.
const DefaultFile = "aerie.yaml"

// Options say where [Load] looks.
type Options struct {
	// File is the configuration file. Empty means DefaultFile if it exists; a named one must exist.
	File string
	// Env holds NAME=VALUE pairs, as os.Environ does. An empty value counts as not set, because that is what
	// compose files and CI make of a variable that nobody has set.
	Env []string
	// EnvAlso lists AERIE_ variables that the program reads itself, such as AERIE_HOME.
	EnvAlso []string
	// Flags are the flags that were given, by key.
	Flags map[string]Flag
}

// Flag is a flag as it was typed.
type Flag struct {
	Name  string // with its dashes
	Value string
}

// Source says what kind of place a value comes from.
type Source string

// The sources, from weakest to strongest.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
)

func (s Source) rank() int {
	return slices.Index([]Source{FromDefault, FromFile, FromEnv, FromFlag}, s)
}

// Origin says where a value was set.
type Origin struct {
	Source Source
	Where  string // such as "aerie.yaml:12", "AERIE_CORPUS" or "--corpus"; empty for a default
}

func (o Origin) String() string {
	if o.Where == "" {
		return string(FromDefault)
	}
	return o.Where
}

// Origins holds the origin of every key that is not at its default.
type Origins map[string]Origin

// Of returns the origin of a key.
func (o Origins) Of(key string) Origin {
	if origin, ok := o[key]; ok {
		return origin
	}
	return Origin{Source: FromDefault}
}

// Load reads the configuration and checks it. Every error is an *Error, but for a file that can't be read.
func Load(o Options) (*Config, Origins, error) {
	cfg, origins := Default(), Origins{}
	file, named := o.File, o.File != ""
	if !named {
		if _, err := os.Stat(DefaultFile); err == nil {
			file = DefaultFile
			if err := checkOwner(file); err != nil {
				return nil, nil, err
			}
		}
	}
	if file != "" {
		if err := readFile(cfg, origins, file); err != nil {
			return nil, nil, err
		}
	}
	if err := readEnv(cfg, origins, o.Env, o.EnvAlso); err != nil {
		return nil, nil, err
	}
	if err := readFlags(cfg, origins, o.Flags); err != nil {
		return nil, nil, err
	}
	if err := locateFiles(cfg, origins, filepath.Dir(file)); err != nil {
		return nil, nil, err
	}
	if !named {
		if err := checkFiles(cfg, origins, file); err != nil {
			return nil, nil, err
		}
	}
	if err := readKeyFiles(cfg, origins); err != nil {
		return nil, nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, nil, origins.Locate(err)
	}
	if err := checkSecrets(cfg, origins, o.Env, file, named); err != nil {
		return nil, nil, err
	}
	return cfg, origins, nil
}

// Locate adds to an *Error of Validate where the key was set.
func (o Origins) Locate(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Where == "" {
		e.Where = o[e.Key].Where
	}
	return err
}

// set gives a key its value from a text.
func set(cfg *Config, origins Origins, k Key, text string, origin Origin) error {
	if err := setText(k.field(cfg), text); err != nil {
		return typeError(k, text, origin.Where, err)
	}
	origins[k.Name] = origin
	return nil
}

// typeError says that a value isn't of the key's type. A secret's value stays out.
func typeError(k Key, text, where string, err error) *Error {
	if k.Secret {
		text = mask
	}
	e := wrong(k.Name, text, k.expects())
	var d detail
	if errors.As(err, &d) {
		e = &Error{Key: k.Name, problem: fmt.Sprintf("%s%s: %s", k.Name, wherePlace, d)}
	}
	e.Where = where
	return e
}

func readFlags(cfg *Config, origins Origins, flags map[string]Flag) error {
	for _, k := range Keys() {
		f, ok := flags[k.Name]
		if !ok {
			continue
		}
		if err := set(cfg, origins, k, f.Value, Origin{FromFlag, f.Name}); err != nil {
			return err
		}
	}
	return nil
}

// locateFiles makes the names of files relative to the folder of the configuration file that names them; a "~/" at the start is the
// home folder, as a shell has it.
func locateFiles(cfg *Config, origins Origins, folder string) error {
	for _, k := range Keys() {
		if !strings.HasSuffix(k.Name, "_file") && !namesFile(k.Name) && k.Name != "server.tls_cert" {
			continue
		}
		name := k.field(cfg).String()
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return &Error{Key: k.Name, Where: origins.Of(k.Name).Where, problem: fmt.Sprintf("%s is %q%s, and there is no home folder: %v", k.Name, name, wherePlace, err)}
			}
			name = filepath.Join(home, rest)
			k.field(cfg).SetString(name)
		}
		if name != "" && origins.Of(k.Name).Source == FromFile && !filepath.IsAbs(name) {
			k.field(cfg).SetString(filepath.Join(folder, name))
		}
	}
	return nil
}

// readKeyFiles reads the files that hold secrets. Of a key and a key file the one from the stronger source
// counts; two from the same source contradict each other.
func readKeyFiles(cfg *Config, origins Origins) error {
	for _, k := range Keys() {
		path, isKeyFile := strings.CutSuffix(k.Name, "_file")
		secret, isSecret := Lookup(path)
		name := ""
		if isKeyFile && isSecret { // any other file is for whoever uses it
			name = k.field(cfg).String()
		}
		if name == "" {
			continue
		}
		from := origins.Of(k.Name)
		direct := origins.Of(secret.Name)
		if secret.field(cfg).String() != "" && direct.Source != FromDefault {
			if direct.Source == from.Source {
				return &Error{Key: k.Name, Where: from.Where,
					problem: fmt.Sprintf("%s and %s are both set%s; keep one of them", secret.Name, k.Name, wherePlace)}
			}
			if direct.Source.rank() > from.Source.rank() {
				continue
			}
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return &Error{Key: k.Name, Where: from.Where, problem: fmt.Sprintf("%s%s can't be read: %v", k.Name, wherePlace, err)}
		}
		text := strings.TrimSpace(string(b))
		if text == "" || strings.ContainsAny(text, "\r\n") {
			return &Error{Key: k.Name, Where: from.Where,
				problem: fmt.Sprintf("%s is %q%s; the file must hold the key on one line and nothing else", k.Name, name, wherePlace)}
		}
		secret.field(cfg).SetString(text)
		origins[secret.Name] = Origin{from.Source, name}
	}
	return nil
}
