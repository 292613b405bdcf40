package printable

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// Mask stands for a secret.
const Mask = "****"

// secretWords are those that name a secret when they are a word of a name; compounds are written in one word as well.
var secretWords = map[string]bool{
	"key": true, "keys": true, "apikey": true, "subscriptionkey": true, "secret": true, "secrets": true, "clientsecret": true, "password": true, "passwd": true, "pwd": true,
	"pass": true, "passphrase": true, "token": true, "accesstoken": true, "authtoken": true, "credential": true, "credentials": true,
	"authorization": true, "auth": true, "bearer": true, "cookie": true, "session": true, "sessionid": true, "signature": true, "sig": true, "jwt": true, "sas": true,
}

// IsSecret reports whether a name, of a parameter, a header or a field, is that of a secret: api_key, X-Api-Key, accessToken, sig.
// Counts of tokens such as max_tokens aren't.
func IsSecret(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range words {
		if secretWords[strings.ToLower(word)] {
			return true
		}
		for _, part := range camel.FindAllString(word, -1) {
			if secretWords[strings.ToLower(part)] {
				return true
			}
		}
	}
	return false
}

// camel finds the words of a name like accessToken or APIKey.
var camel = regexp.MustCompile(`\p{Lu}+(?:\p{Ll}+|\b)|\p{Lu}?\p{Ll}+`)

// Values copies a map of parameters with everything masked that is named like a secret, at any depth, and every value of a map of
// headers: those are named by whoever made the server.
func Values(m map[string]any) map[string]any { return values(m, false) }

func values(m map[string]any, headers bool) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		out[name] = value(name, v, headers)
	}
	return out
}

func value(name string, v any, headers bool) any {
	inner := headers || strings.Contains(strings.ToLower(name), "header")
	switch v := v.(type) {
	case map[string]any:
		if IsSecret(name) {
			return Mask
		}
		return values(v, inner)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = value(name, e, headers)
		}
		return out
	case nil:
		return nil
	case string:
		if !headers && !IsSecret(name) && strings.Contains(v, "://") {
			return URL(v)
		}
	}
	if headers || IsSecret(name) {
		return Mask
	}
	return v
}

// URL takes user and password out of an address, or of a list of them with commas, and masks the parameters of its query that are
// named like secrets. It works on what can't be parsed too, because a wrong address is shown in an error. Any other text comes back
// as it is.
func URL(text string) string {
	if !strings.ContainsAny(text, "@?") {
		return text
	}
	var parts []string
	for _, part := range strings.Split(text, ",") {
		// A comma may stand in a password too.
		if n := len(parts); n > 0 && !strings.Contains(part, "://") && strings.Contains(part, "@") && !strings.Contains(parts[n-1], "@") {
			parts[n-1] += "," + part
			continue
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		parts[i] = maskQuery(maskUser(part))
	}
	return strings.Join(parts, ",")
}

func maskUser(part string) string {
	start := 0
	if j := strings.Index(part, "://"); j >= 0 {
		start = j + len("://")
	}
	host := strings.LastIndexByte(part[start:], '@') // the last: a password that isn't escaped may hold one, and a slash or a question mark
	if host < 0 {
		return part
	}
	if cut := strings.IndexAny(part[start:], "/?#"); cut >= 0 && cut < host && !userLike(part[start:start+cut]) {
		return part // an @ in a path or a query
	}
	return part[:start] + Mask + part[start+host:]
}

// userLike reports whether what stands before a slash can be the first half of "user:pass/word@host": it has a colon that no port
// follows.
func userLike(s string) bool {
	_, port, ok := strings.Cut(s, ":")
	return ok && strings.Trim(port, "0123456789") != ""
}

func maskQuery(part string) string {
	base, query, ok := strings.Cut(part, "?")
	if !ok {
		return part
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	pairs := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		clear, err := url.QueryUnescape(name)
		if err != nil {
			clear = name
		}
		if value != "" && (IsSecret(clear) || clear == "code") {
			pairs[i] = name + "=" + Mask
		}
	}
	out := base + "?" + strings.Join(pairs, "&")
	if hasFragment {
		out += "#" + fragment
	}
	return out
}
