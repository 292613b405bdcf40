package llm

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// classify sorts a failed reply by status and body. Providers disagree on both, so the words of the body decide where
// they are clear: a quota that is used up and a rate limit share a status, and some servers report either with 200.
func classify(status int, header http.Header, body []byte, now time.Time) *Error {
	p := parseProblem(body)
	text := strings.ToLower(p.code + " " + p.kind + " " + p.message)
	e := &Error{Status: status, Message: oneLine(p.message)}
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	switch {
	case status == http.StatusPaymentRequired || quotaText.MatchString(text):
		e.Kind = Quota
	case status == http.StatusTooManyRequests || status == 529 || throttleText.MatchString(text) && throttleStatus(status):
		e.Kind = Throttled
		e.RetryAfter = retryAfter(header, text, now)
	case plainText.MatchString(text):
		e.Kind = Auth
		e.Message = "it speaks TLS: write https:// for http:// in the address"
	case tooLongText.MatchString(text) || status == http.StatusRequestEntityTooLarge:
		e.Kind = TooLong
	case filterText.MatchString(text):
		e.Kind, e.Reason = BadAnswer, Refusal
	case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		e.Kind, e.busy = Throttled, true
		e.RetryAfter = retryAfter(header, text, now)
	case status == http.StatusUnauthorized || status == http.StatusForbidden || authText.MatchString(text) && status < 500:
		e.Kind = Auth
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		e.Kind = Auth
	case status >= 300 && status < 400:
		e.Kind = Auth
		e.Message = "it redirects to another address, which is not followed, since the key would go with it"
	case refusesRequest(status):
		e.Kind = Invalid
		e.parameter = rejectedParameter(p.param, text)
	default:
		e.Kind = Transient
	}
	return e
}

// refusesRequest says which status blames the request, whenever it is sent. All others may pass: gateways answer with
// 424, 499 and the like when what is behind them fails.
func refusesRequest(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusGone, http.StatusLengthRequired, http.StatusPreconditionFailed,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusExpectationFailed, http.StatusUnprocessableEntity,
		http.StatusUpgradeRequired, http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons:
		return true
	}
	return false
}

// throttleStatus says with which status words about limits are believed: not with 400 or 404, where they may quote the
// request.
func throttleStatus(status int) bool {
	return status == http.StatusOK || status >= 500 || status == http.StatusForbidden
}

var (
	quotaText    = regexp.MustCompile(`insufficient_quota|exceeded your current quota|billing_hard_limit|billing hard limit|credit balance is too low|insufficient (credits|balance|funds)|out of credits|budget has been exceeded`)
	throttleText = regexp.MustCompile(`rate[ _-]?limit|too many requests|too_many_requests|\btry again in \d|resource_exhausted|\b(tokens|requests) per (minute|day|second)\b|overloaded|server is busy|queue is full`)
	plainText    = regexp.MustCompile(`http request (?:was sent )?to (?:an )?https (?:server|port)`)
	tooLongText  = regexp.MustCompile(`context_length_exceeded|maximum context length|context (length|window|size)|max_model_len|prompt is too long|input is too long|too many tokens|too large to process|physical batch size|reduce the length|maximum input length|longer than the maximum|exceeds? the (maximum|max)[a-z ]* tokens|string_above_max_length`)
	filterText   = regexp.MustCompile(`content_filter|content_policy|content management policy|responsibleai|flagged by|moderation`)
	authText     = regexp.MustCompile(`invalid_api_key|incorrect api key|invalid api key|invalid authentication|model_not_found`)
)

// problem is the part of an error body that matters.
type problem struct{ message, code, kind, param string }

// parseProblem reads the shapes in use: {"error": {"message", "type", "code", "param"}}, {"error": "text"},
// {"object": "error", "message"}, {"detail": ...}, and text that isn't JSON.
func parseProblem(body []byte) problem {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return problem{message: string(body[:min(len(body), 2000)])}
	}
	p := problem{message: scalar(outer.Message), code: scalar(outer.Code), kind: scalar(outer.Type)}
	if p.message == "" {
		p.message = scalar(outer.Detail)
	}
	var inner struct {
		Message  json.RawMessage `json:"message"`
		Type     json.RawMessage `json:"type"`
		Code     json.RawMessage `json:"code"`
		Status   json.RawMessage `json:"status"`
		Param    json.RawMessage `json:"param"`
		Metadata json.RawMessage `json:"metadata"`
		Details  json.RawMessage `json:"details"`
	}
	switch {
	case len(outer.Error) == 0 || string(outer.Error) == "null":
	case json.Unmarshal(outer.Error, &inner) == nil:
		p = problem{message: scalar(inner.Message), code: scalar(inner.Code) + " " + scalar(inner.Status), kind: scalar(inner.Type), param: scalar(inner.Param)}
		if d := string(inner.Details); strings.Contains(d, "retryDelay") {
			p.message += " " + d
		}
	default:
		p.message = scalar(outer.Error)
	}
	if strings.TrimSpace(p.message) == "" {
		p.message = string(body[:min(len(body), 500)])
	}
	return p
}

// scalar returns a JSON string without its quotes, and anything else as it stands.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// atOnce stands for an explicit "Retry-After: 0", since 0 says that nothing was said.
const atOnce = time.Millisecond

// retryAfter returns how long an endpoint asks to wait, from the first of: Retry-After in seconds or as a date, the same
// as LiteLLM passes it on, when the limits reset, and the words of the message.
func retryAfter(header http.Header, text string, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After", "Llm_provider-Retry-After"} {
		v := header.Get(name)
		if v == "" {
			v = headerFold(header, name)
		}
		if d, ok := parseWait(v, now); ok {
			return max(d, atOnce)
		}
	}
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	if d := reset(header, now); d > 0 {
		return d
	}
	if m := waitText.FindStringSubmatch(text); m != nil {
		return spokenDuration(m[1])
	}
	return 0
}

// headerFold finds a header whose name has characters that Go's canonical form leaves alone, such as "_".
func headerFold(header http.Header, name string) string {
	for k, v := range header {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

func parseWait(v string, now time.Time) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0, false
	}
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e7 {
		return time.Duration(s * float64(time.Second)), true
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now)), true
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return d, true
	}
	return 0, false
}

// longestReset bounds what x-ratelimit-reset-* can ask for: it tells when a bucket is full again, and a call can be made
// long before that.
const longestReset = time.Minute

func reset(header http.Header, now time.Time) time.Duration {
	var wait time.Duration
	for _, what := range []string{"Requests", "Tokens", ""} {
		suffix := ""
		if what != "" {
			suffix = "-" + what
		}
		left := header.Get("X-Ratelimit-Remaining" + suffix)
		if left != "" && strings.TrimLeft(left, "0.") != "" {
			continue // this bucket isn't the empty one
		}
		v := header.Get("X-Ratelimit-Reset" + suffix)
		d, ok := parseWait(v, now)
		if s, err := strconv.ParseFloat(v, 64); err == nil && s > 1e9 { // seconds or milliseconds since 1970
			if s > 1e12 {
				s /= 1000
			}
			d, ok = time.Unix(int64(s), 0).Sub(now), true
		}
		if ok {
			wait = max(wait, d)
		}
	}
	return min(wait, longestReset)
}

var waitText = regexp.MustCompile(`(?:try again|retry|wait|retry after|retrydelay"?:? *"?)[a-z ,:]*?(?:in|after|for)? *((?:[0-9.]+ *(?:ms|milliseconds?|h|hours?|m|minutes?|min|s|seconds?|sec)\b? *)+)`)

var durationPart = regexp.MustCompile(`([0-9.]+) *(ms|milli|h|m|s)`)

// spokenDuration reads "1m30.5s", "20ms" or "5 seconds".
func spokenDuration(s string) time.Duration {
	var d time.Duration
	for _, m := range durationPart.FindAllStringSubmatch(s, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			continue
		}
		unit := map[string]time.Duration{"ms": time.Millisecond, "milli": time.Millisecond, "h": time.Hour, "m": time.Minute, "s": time.Second}[m[2]]
		d += time.Duration(v * float64(unit))
	}
	return d
}

// oneLine brings a message to one line of bounded length.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	const limit = 300
	if len(s) <= limit {
		return s
	}
	n := limit
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
