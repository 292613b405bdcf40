package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/aerie-rag/aerie/internal/printable"
)

// A configuration file that lies in the working folder came there with whatever lies there: a repository that was cloned, an archive
// that was unpacked. One that was named, by a flag or a variable, is trusted like whoever named it. So of a file that was only found:
//
//   - it must be ours, or the system's;
//   - the files that it names stay within its folder, unless they are certificates;
//   - the secrets of stronger sources aren't sent to the addresses in it;
//   - the commands in it aren't run.

// rank orders the sources by how far they are trusted: a file that was named is as good as a flag.
func (o Origins) rank(key string, named bool) int {
	s := o.Of(key).Source
	if s == FromFile && named {
		return FromFlag.rank()
	}
	return s.rank()
}

// checkOwner refuses a file that was found and belongs to somebody else.
func checkOwner(path string) error {
	for _, look := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} { // a link, and what it leads to
		info, err := look(path)
		if err != nil {
			return nil // reading it says why
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := checkOwnerOf(path, owner.Uid, os.Geteuid()); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOwnerOf takes what is ours and the system's.
func checkOwnerOf(path string, owner uint32, user int) error {
	if owner == 0 || int(owner) == user {
		return nil
	}
	return &Error{Where: path, problem: fmt.Sprintf("%s lies in this folder and belongs to another user (id %d), so it is not read", path, owner),
		Hint: trustHint(path)}
}

// trustHint says how to trust a file that was found.
func trustHint(file string) string {
	return fmt.Sprintf("if you trust the file, name it: --config %s, or AERIE_CONFIG=%s", file, file)
}

// namesFile reports whether a key's value is the name of a file whose content matters to somebody: keys and tokens that are read,
// and what is written. The certificate of an authority isn't.
func namesFile(key string) bool {
	short := (Key{Name: key}).Short()
	return strings.HasSuffix(short, "_file") && short != "ca_file" && short != "cert_file" || short == "tls_key" || short == "audit_log"
}

// checkFiles refuses files that a file that was found names outside its own folder. Links count as what they lead to.
func checkFiles(cfg *Config, origins Origins, file string) error {
	if o := origins.Of("readers"); len(cfg.Readers) > 0 && o.Source == FromFile {
		return &Error{Key: "readers", Where: o.Where, problem: fmt.Sprintf("readers%s holds commands, and that file was found here and not named, so they are not run", wherePlace), Hint: trustHint(file)}
	}
	folder := resolved(filepath.Dir(file))
	for _, k := range Keys() {
		name := ""
		if namesFile(k.Name) {
			name = k.field(cfg).String()
		}
		if name == "" || origins.Of(k.Name).Source != FromFile {
			continue
		}
		rel, err := filepath.Rel(folder, resolved(name))
		if err == nil && filepath.IsLocal(rel) {
			continue
		}
		return &Error{Key: k.Name, Where: origins.Of(k.Name).Where,
			problem: fmt.Sprintf("%s is %q%s, outside the folder of that file, which was found here and not named, so it is not read", k.Name, printable.Line(name), wherePlace),
			Hint:    trustHint(file) + fmt.Sprintf("; or name the key file yourself: %s=%s", k.Env(), printable.Line(name))}
	}
	return nil
}

// resolved returns where a path leads, as far as it exists.
func resolved(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return abs
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// checkSecrets refuses to send a secret to an address that a weaker source names. env is searched for the headers that the
// standard variables of OpenTelemetry bring.
func checkSecrets(cfg *Config, origins Origins, env []string, file string, named bool) error {
	refuse := func(secret, from string, address Key) error {
		hint := fmt.Sprintf("set %s where the secret is set, such as %s", address.Name, address.Env())
		if origins.Of(address.Name).Source == FromFile {
			hint = trustHint(file) + "; or " + hint
		}
		return &Error{Key: address.Name, Where: origins.Of(address.Name).Where,
			problem: fmt.Sprintf("%s is %s%s, and %s (%s) is not sent to an address from a weaker source", address.Name,
				quote(printable.URL(printable.Line(address.field(cfg).String()))), wherePlace, secret, from), Hint: hint}
	}
	for _, secret := range Keys() {
		if !secret.holdsSecret(cfg) {
			continue
		}
		for _, address := range Keys() {
			if address.Section() != secret.Section() || !address.isAddress() || address.field(cfg).String() == "" {
				continue
			}
			if origins.rank(secret.Name, named) > origins.rank(address.Name, named) {
				return refuse(secret.Name, origins.Of(secret.Name).String(), address)
			}
		}
	}
	otlp, ok := Lookup("telemetry.otlp_endpoint")
	if !ok || otlp.field(cfg).String() == "" || origins.rank(otlp.Name, named) >= FromEnv.rank() {
		return nil
	}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS") {
			return refuse(name, "environment", otlp)
		}
	}
	return nil
}

// holdsSecret reports whether a key has a value that must not get into wrong hands: a secret, credentials, or parameters and
// headers with one among them.
func (k Key) holdsSecret(cfg *Config) bool {
	switch v := k.field(cfg).Interface().(type) {
	case Secret:
		return v != ""
	case string:
		return v != "" && slices.Contains([]string{"credentials_file", "nkey_file"}, k.Short())
	case map[string]any:
		return masksAnything(printable.Values(v))
	case map[string]string:
		return len(v) > 0 && strings.Contains(k.Short(), "header")
	}
	return false
}

func masksAnything(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if masksAnything(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, masksAnything)
	case string:
		return strings.Contains(v, mask)
	}
	return false
}

// isAddress reports whether a key says where something is sent.
func (k Key) isAddress() bool {
	return strings.HasSuffix(k.Short(), "url") || k.Short() == "otlp_endpoint"
}
