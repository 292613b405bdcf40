package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The checks return an error interface that is nil when all is well, so that cmp.Or finds the first that isn't.

func oneOf(key, value string, valid ...string) error {
	if slices.Contains(valid, value) {
		return nil
	}
	list := strings.Join(valid[:len(valid)-1], ", ") + " or " + valid[len(valid)-1]
	if value == "" {
		return wrong(key, value, list)
	}
	e := wrong(key, value, list)
	if near := Nearest(value, valid); edits(strings.ToLower(near), strings.ToLower(value)) <= 1+len(near)/3 {
		e.problem += fmt.Sprintf("; did you mean %s?", near)
	}
	return e
}

func atLeast(key string, value, least int) error {
	if value < least {
		return wrong(key, value, fmt.Sprintf("at least %d", least))
	}
	return nil
}

func atLeastDuration(key string, value, least time.Duration) error {
	if value < least {
		return wrong(key, value, fmt.Sprintf("at least %s", least))
	}
	return nil
}

func zeroOrAtLeast(key string, value int, zero string, least int) error {
	if value != 0 && value < least {
		return wrong(key, value, fmt.Sprintf("0 (%s) or at least %d", zero, least))
	}
	return nil
}

func notNegative[T int | float64 | Bytes](key string, value T, zero string) error {
	// Written so that NaN is refused; infinity is no number either.
	if !(value >= 0) || float64(value) > 1e300 {
		return wrong(key, value, fmt.Sprintf("0 (%s) or more", zero))
	}
	return nil
}

func share(key string, value float64) error {
	if !(value >= 0 && value <= 1) {
		return wrong(key, value, "from 0 to 1")
	}
	return nil
}

// endpoint checks what provider openai needs.
func endpoint(section, provider, base, model string) error {
	if provider == "openai" {
		because := "provider openai needs it"
		switch {
		case base == "":
			return missing(section+".base_url", because+", such as http://127.0.0.1:11434/v1")
		case model == "":
			return missing(section+".model", because+": the name of a model that the endpoint knows")
		}
	}
	return address(section+".base_url", base, "http", "https")
}

// address checks a URL, or with nats a list of them; empty is well.
func address(key, value string, schemes ...string) error {
	if value == "" {
		return nil
	}
	parts := []string{value}
	if schemes[0] == "nats" {
		parts = strings.Split(value, ",")
	}
	starts := strings.Join(schemes, ":// or ") + "://"
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") {
			return wrongly(key, redact(part), "the scheme is missing; it must start with %s, such as %s", starts, redact(schemes[0]+"://"+part))
		}
		u, err := url.Parse(part)
		if err != nil {
			return wrongly(key, redact(part), "it is not a URL; it must look like %s://host:port", schemes[0])
		}
		if !slices.Contains(schemes, strings.ToLower(u.Scheme)) {
			return wrongly(key, redact(part), "the scheme %q is not one of %s", u.Scheme, strings.Join(schemes, ", "))
		}
		if u.Hostname() == "" {
			return wrongly(key, redact(part), "the host is missing; it must look like %s://host:port", schemes[0])
		}
		if port := u.Port(); port != "" && !validPort(port) {
			return wrongly(key, redact(part), "the port must be from 1 to 65535")
		}
	}
	return nil
}

func hostPort(key, value string, mayBeEmpty bool) error {
	if value == "" && mayBeEmpty {
		return nil
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil || !(validPort(port) || port == "0") {
		return wrong(key, value, "host:port, such as 127.0.0.1:7744")
	}
	return nil
}

func validPort(port string) bool {
	v, err := strconv.Atoi(port)
	return err == nil && v >= 1 && v <= 65535
}

// reserved refuses request parameters that aerie sets by itself.
func reserved(key string, extra map[string]any, names ...string) error {
	for _, name := range names {
		if _, ok := extra[name]; ok {
			return &Error{Key: key, problem: fmt.Sprintf("%s holds %q%s; aerie sets that itself, so it must not be there", key, name, wherePlace)}
		}
	}
	return nil
}

// cronFields are those of a cron expression, in order.
var cronFields = []struct {
	name   string
	lo, hi int
	names  string // from lo on, three letters each
}{
	{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of month", 1, 31, ""},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {"day of week", 0, 7, "sunmontuewedthufrisat"},
}

// schedule checks a cron expression of five fields; empty is well.
func schedule(key, value string) error {
	if value == "" {
		return nil
	}
	fields := strings.Fields(value)
	if len(fields) != len(cronFields) {
		return wrongly(key, value, "a cron expression has five fields, minute hour day month weekday, such as %q; this has %d", "0 2 * * *", len(fields))
	}
	for i, f := range cronFields {
		for _, part := range strings.Split(fields[i], ",") {
			if !cronPart(part, f.lo, f.hi, f.names) {
				return wrongly(key, value, "its %s is %q; it must be *, numbers from %d to %d, ranges such as %d-%d, or steps such as */%d",
					f.name, fields[i], f.lo, f.hi, f.lo, f.hi, f.lo+2)
			}
		}
	}
	return nil
}

func cronPart(part string, lo, hi int, names string) bool {
	span, step, stepped := strings.Cut(part, "/")
	if stepped {
		if v, err := strconv.Atoi(step); err != nil || v < 1 {
			return false
		}
	}
	if span == "*" {
		return true
	}
	number := func(s string) (int, bool) {
		if i := strings.Index(names, strings.ToLower(s)); len(s) == 3 && i >= 0 && i%3 == 0 {
			return lo + i/3, true
		}
		v, err := strconv.Atoi(s)
		return v, err == nil && v >= lo && v <= hi
	}
	from, to, ranged := strings.Cut(span, "-")
	a, ok := number(from)
	if !ok || !ranged {
		return ok
	}
	b, ok := number(to)
	return ok && a <= b
}
