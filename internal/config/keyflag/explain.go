package keyflag

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aerie-rag/aerie/internal/config"
)

// Explain turns an error of pflag into a sentence that names the flag, what it takes, and for one that isn't known
// the nearest that is. command is the program's name with its subcommand.
func Explain(flags *pflag.FlagSet, command string, err error) error {
	var unknown *pflag.NotExistError
	var required *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("%s%s is not a flag of %s; did you mean --%s?", dashes, name, command, nearest(flags, name))
	case errors.As(err, &required):
		return fmt.Errorf("--%s needs a value: %s", required.GetFlag().Name, kindWords(required.GetFlag().Value.Type()))
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s is %q; it must be %s", invalid.GetFlag().Name, invalid.GetValue(), kindWords(invalid.GetFlag().Value.Type()))
	}
	return err
}

// nearest returns the flag that a name comes nearest to. The visible come first: of two that are equally near, the
// documented one is named. Keys are compared by their dotted names too, so that a section may be missing.
func nearest(flags *pflag.FlagSet, name string) string {
	var candidates []string
	flag := map[string]string{}
	for _, hidden := range []bool{false, true} {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden != hidden {
				return
			}
			candidates = append(candidates, f.Name)
			flag[f.Name] = f.Name
			if v, ok := f.Value.(*value); ok {
				candidates = append(candidates, v.key.Name)
				flag[v.key.Name] = f.Name
			}
		})
	}
	return flag[config.Nearest(name, candidates)]
}

func kindWords(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number that is not negative"
	case strings.HasPrefix(kind, "float"), kind == "number":
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "duration":
		return "a duration such as 90s"
	case kind == "string", kind == "text":
		return "a text"
	}
	return "a " + kind
}
