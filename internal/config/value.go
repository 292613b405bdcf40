package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aerie-rag/aerie/internal/printable"
)

// Secret is a text that never shows itself: not in a message, a log or JSON.
type Secret string

const mask = printable.Mask

// Reveal returns the text, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, or nothing if there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns what String does, for %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText returns what String does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns what String does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Bytes is an amount of memory.
type Bytes int64

// byteUnits are tried in this order, so that "MiB" is not read as "B".
var byteUnits = []struct {
	suffix string
	size   float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
}

// ParseBytes reads a size such as "4GiB", "512 MB" or "1000000".
func ParseBytes(text string) (Bytes, error) {
	number, size := strings.ToLower(strings.TrimSpace(text)), 1.0
	for _, unit := range byteUnits {
		if rest, ok := strings.CutSuffix(number, unit.suffix); ok {
			number, size = strings.TrimSpace(rest), unit.size
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v*size) >= math.MaxInt64 {
		return 0, fmt.Errorf("config: %q is not a size such as 4GiB", text)
	}
	return Bytes(v * size), nil
}

// String returns the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, unit := range []struct {
		suffix string
		size   Bytes
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b != 0 && b%unit.size == 0 {
			return fmt.Sprintf("%d%s", b/unit.size, unit.suffix)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// errType says that a value is not of its key's type; a detail says more than that.
var errType = errors.New("wrong type")

type detail string

func (d detail) Error() string { return string(d) }

func detailf(format string, args ...any) error { return detail(fmt.Sprintf(format, args...)) }

// setText sets a field from the text of a flag, a variable or a scalar of the file. Lists and maps are YAML; a
// list may also be words with commas between them.
func setText(field reflect.Value, text string) error {
	trimmed := strings.TrimSpace(text)
	switch p := field.Addr().Interface().(type) {
	case *string:
		*p = text
		return nil
	case *Secret:
		*p = Secret(trimmed)
		return nil
	case *int:
		v, err := strconv.ParseInt(trimmed, 10, 64)
		*p = int(v)
		return err
	case *uint64:
		v, err := strconv.ParseUint(trimmed, 10, 64)
		*p = v
		return err
	case *float64:
		v, err := strconv.ParseFloat(trimmed, 64)
		*p = v
		return err
	case *bool:
		v, err := strconv.ParseBool(strings.ToLower(trimmed))
		*p = v
		return err
	case *time.Duration:
		v, err := time.ParseDuration(trimmed)
		*p = v
		return err
	case *Bytes:
		v, err := ParseBytes(trimmed)
		*p = v
		return err
	case *[]string:
		if !strings.HasPrefix(trimmed, "[") {
			*p = nil
			for _, word := range strings.Split(trimmed, ",") {
				if word = strings.TrimSpace(word); word != "" {
					*p = append(*p, word)
				}
			}
			return nil
		}
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) != 1 {
		return errType
	}
	return setTree(field, document.Content[0])
}

// setTree sets a list or a map from its YAML node.
func setTree(field reflect.Value, n *yaml.Node) error {
	switch p := field.Addr().Interface().(type) {
	case *[]string:
		var v []string
		if n.Kind != yaml.SequenceNode || n.Decode(&v) != nil {
			return errType
		}
		*p = v
	case *map[string]any:
		v := map[string]any{}
		if n.Kind != yaml.MappingNode || n.Decode(&v) != nil {
			return errType
		}
		*p = v
	case *map[string]string:
		v := map[string]string{}
		if n.Kind != yaml.MappingNode || n.Decode(&v) != nil {
			return errType
		}
		*p = v
	case *map[string]Price:
		v, err := prices(n)
		if err != nil {
			return err
		}
		*p = v
	default:
		return errType
	}
	return nil
}

// prices reads what models cost: for each a price, field by field.
func prices(n *yaml.Node) (map[string]Price, error) {
	if n.Kind != yaml.MappingNode {
		return nil, errType
	}
	all := map[string]Price{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		model, body := n.Content[i].Value, n.Content[i+1]
		if body.Kind != yaml.MappingNode {
			return nil, errType
		}
		price := Price{Currency: "USD"}
		for j := 0; j+1 < len(body.Content); j += 2 {
			var err error
			name, value := body.Content[j].Value, strings.TrimSpace(body.Content[j+1].Value)
			amounts := map[string]*float64{
				"input": &price.Input, "output": &price.Output, "cached_input": &price.CachedInput,
				"batch_input": &price.BatchInput, "batch_output": &price.BatchOutput,
			}
			switch amount := amounts[name]; {
			case amount != nil:
				*amount, err = strconv.ParseFloat(value, 64)
			case name == "currency":
				price.Currency = value
			default:
				return nil, detailf("%q of %q is not known; did you mean %q?",
					name, model, Nearest(name, append(slices.Sorted(maps.Keys(amounts)), "currency")))
			}
			if err != nil {
				return nil, detailf("%s of %q is %q; it must be a number", name, model, value)
			}
		}
		all[model] = price
	}
	return all, nil
}

// shown returns a key's value for people: secrets masked, durations and sizes as they are written.
func (k Key) shown(c *Config) any {
	switch v := k.field(c).Interface().(type) {
	case Secret:
		return v.String()
	case time.Duration:
		if v%time.Second == 0 {
			return fmt.Sprintf("%ds", v/time.Second) // 120s is easier to compare with a time-out than 2m0s
		}
		return v.String()
	case Bytes:
		if v == 0 {
			return 0
		}
		return v.String()
	case string:
		if k.isAddress() {
			return redact(v)
		}
		return v
	case map[string]string:
		shown := make(map[string]any, len(v))
		for name, text := range v {
			shown[name] = text
		}
		return printable.Values(map[string]any{k.Short(): shown})[k.Short()]
	case []string:
		if v == nil {
			return []string{}
		}
		return v
	case map[string]any:
		return printable.Values(v)
	case map[string]Price:
		if v == nil {
			return map[string]Price{}
		}
		return v
	default:
		return v
	}
}

// redact takes out of an address what opens a door; see printable.URL.
func redact(text string) string { return printable.URL(text) }
