package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Key is one setting.
type Key struct {
	// Name is the path in aerie.yaml, such as "clustering.mode".
	Name string
	// Usage says in a few words what it does.
	Usage string
	// Secret values are never shown.
	Secret bool
	// Bool keys may be given as a flag without a value.
	Bool bool

	index []int // of the field in Config, as reflect wants it
}

// Env returns the key's environment variable, such as AERIE_CLUSTERING_MODE.
func (k Key) Env() string { return "AERIE_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_")) }

// Flag returns the key's flag without dashes, such as clustering-max-cluster-tokens.
func (k Key) Flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name) }

// Section returns the part of the name before the last dot; empty for a key at the top.
func (k Key) Section() string {
	if i := strings.LastIndexByte(k.Name, '.'); i >= 0 {
		return k.Name[:i]
	}
	return ""
}

// Short returns the part of the name after the last dot.
func (k Key) Short() string { return k.Name[strings.LastIndexByte(k.Name, '.')+1:] }

// Keys returns every key, in the order of [Config].
func Keys() []Key { return keysOf(reflect.TypeFor[Config](), "", nil) }

// Lookup returns the key of a name.
func Lookup(name string) (Key, bool) {
	for _, k := range Keys() {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

func keysOf(t reflect.Type, prefix string, index []int) []Key {
	var keys []Key
	for i := range t.NumField() {
		field := t.Field(i)
		name := prefix + field.Tag.Get("key")
		path := append(append([]int(nil), index...), i)
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(field.Type, name+".", path)...)
			continue
		}
		keys = append(keys, Key{
			Name: name, Usage: usage[name], index: path,
			Secret: field.Type == reflect.TypeFor[Secret](),
			Bool:   field.Type.Kind() == reflect.Bool,
		})
	}
	return keys
}

func (k Key) field(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }

// Type returns one word for the type of the key's value, for help.
func (k Key) Type() string {
	switch k.field(new(Config)).Interface().(type) {
	case time.Duration:
		return "duration"
	case Bytes:
		return "size"
	case int, uint64:
		return "int"
	case float64:
		return "number"
	case bool:
		return "bool"
	case []string:
		return "list"
	case map[string]Price, map[string]any:
		return "map"
	default:
		return "text"
	}
}

// Default returns the key's default as it is written in aerie.yaml.
func (k Key) Default() string { return Setting{Value: k.shown(Default())}.Text() }

// expects says what a value of the key's type looks like.
func (k Key) expects() string {
	switch k.field(new(Config)).Interface().(type) {
	case time.Duration:
		return "a duration such as 90s or 5m"
	case Bytes:
		return "a size such as 512MiB or 4GB"
	case int:
		return "a whole number"
	case uint64:
		return "a whole number that is not negative"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []string:
		return "a list such as [a, b]"
	case map[string]Price:
		return "a map such as {MODEL: {input: 0.15, output: 0.60, currency: USD}}"
	case map[string]any:
		return "a map such as {top_p: 0.9}"
	default:
		return "a text"
	}
}

// Error is one wrong setting.
type Error struct {
	// Key is the setting, as far as it could be told.
	Key string
	// Where it was set, such as "aerie.yaml:12", "AERIE_CORPUS" or "--corpus"; may be empty.
	Where string
	// Problem is the sentence, with %s where " (Where)" goes; see Error.
	problem string
	// Hint says what to do, where that isn't part of the sentence.
	Hint string
}

// Advice is the hint, for those who know an error of the configuration by what it can say.
func (e *Error) Advice() string { return e.Hint }

func (e *Error) Error() string {
	where := ""
	if e.Where != "" {
		where = " (" + e.Where + ")"
	}
	return "config: " + strings.Replace(e.problem, wherePlace, where, 1)
}

// wherePlace marks the place in a problem at which the origin is put.
const wherePlace = "\x00"

// wrong returns the error of a value that is out of range: want completes the sentence "it must be ...".
func wrong(key string, value any, want string) *Error {
	return &Error{Key: key, problem: fmt.Sprintf("%s is %s%s; it must be %s", key, quote(value), wherePlace, want)}
}

// wrongly is wrong for what needs a sentence of its own after "KEY is VALUE".
func wrongly(key string, value any, format string, args ...any) *Error {
	return &Error{Key: key, problem: fmt.Sprintf("%s is %s%s; ", key, quote(value), wherePlace) + fmt.Sprintf(format, args...)}
}

// missing returns the error of a key that something else makes necessary.
func missing(key, because string) *Error {
	return &Error{Key: key, problem: fmt.Sprintf("%s is not set%s; %s", key, wherePlace, because)}
}

// quote shows a value in a sentence: texts in quotes and never longer than a line.
func quote(value any) string {
	s, ok := value.(string)
	if !ok {
		return fmt.Sprint(value)
	}
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
