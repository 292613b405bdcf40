package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// serviceLink matches the variables that Kubernetes puts into every container for a service whose name starts with
// "aerie", such as AERIE_COORDINATOR_SERVICE_HOST and AERIE_PORT_7744_TCP_ADDR. They are nobody's settings.
var serviceLink = regexp.MustCompile(`^AERIE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func readEnv(cfg *Config, origins Origins, env, also []string) error {
	keys := map[string]Key{}
	names := slices.Clone(also)
	for _, k := range Keys() {
		keys[k.Env()] = k
		names = append(names, k.Env())
	}
	env = slices.Clone(env)
	slices.Sort(env) // so that of several errors the same one is told each time
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "AERIE_") || slices.Contains(also, name) {
			continue
		}
		k, known := keys[name]
		switch {
		case !known && serviceLink.MatchString(name):
		case !known:
			return &Error{Where: name, problem: fmt.Sprintf(
				"the environment variable %s is not known; did you mean %s?", name, Nearest(name, names))}
		case value != "":
			if err := set(cfg, origins, k, value, Origin{FromEnv, name}); err != nil {
				return err
			}
		}
	}
	return nil
}
