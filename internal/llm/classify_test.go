package llm

import (
	"net/http"
	"testing"
	"time"
)

// FAULTS: HKUDS/LightRAG 740.
func TestClassify(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type want struct {
		kind      Kind
		reason    Reason
		after     time.Duration
		parameter string
	}
	for name, tc := range map[string]struct {
		status int
		header http.Header
		body   string
		want   want
	}{
		"429, seconds": {429, http.Header{"Retry-After": {"7"}}, `{"error":{"message":"Slow down."}}`, want{kind: Throttled, after: 7 * time.Second}},
		"429, at once": {429, http.Header{"Retry-After": {"0"}}, ``, want{kind: Throttled, after: atOnce}},
		"429, date": {429, http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:05:05 GMT"}}, ``,
			want{kind: Throttled, after: time.Minute}},
		"429, date in the past":     {429, http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:00:05 GMT"}}, ``, want{kind: Throttled, after: atOnce}},
		"429, passed on by a proxy": {429, http.Header{"llm_provider-retry-after": {"9"}}, ``, want{kind: Throttled, after: 9 * time.Second}},
		"429, when the empty bucket is full": {429, http.Header{
			"X-Ratelimit-Remaining-Requests": {"12"}, "X-Ratelimit-Reset-Requests": {"50s"},
			"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1.5s"},
		}, ``, want{kind: Throttled, after: 1500 * time.Millisecond}},
		"429, reset as a duration of minutes is bounded": {429, http.Header{"X-Ratelimit-Reset-Tokens": {"6m0s"}}, ``, want{kind: Throttled, after: time.Minute}},
		"429, reset since 1970":                          {429, http.Header{"X-Ratelimit-Reset": {"1767323075"}}, ``, want{kind: Throttled, after: 30 * time.Second}},
		"429, in words": {429, nil, `{"error":{"message":"Rate limit reached for gpt-4o in organization org on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2.34s."}}`,
			want{kind: Throttled, after: 2340 * time.Millisecond}},
		"429, in words, milliseconds": {429, nil, `{"error":{"message":"Please try again in 86ms."}}`, want{kind: Throttled, after: 86 * time.Millisecond}},
		"429, in words, minutes":      {429, nil, `{"error":{"message":"Please try again in 1m30.5s."}}`, want{kind: Throttled, after: 90500 * time.Millisecond}},
		"429, in words, spelled":      {429, nil, `{"detail":"Too many requests, retry after 12 seconds"}`, want{kind: Throttled, after: 12 * time.Second}},
		"429, Google": {429, nil, `{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31s"}]}}`,
			want{kind: Throttled, after: 31 * time.Second}},
		"429, LiteLLM's cooldown": {429, nil, `{"error":{"message":"No deployments available for selected model, Try again in 5 seconds.","type":"None","code":"429"}}`,
			want{kind: Throttled, after: 5 * time.Second}},
		"429, bare":                 {429, nil, ``, want{kind: Throttled}},
		"529":                       {529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want{kind: Throttled}},
		"503 with a limit in words": {503, nil, `{"error":"rate limit exceeded"}`, want{kind: Throttled}},
		"503 that says when":        {503, http.Header{"Retry-After": {"3"}}, `busy`, want{kind: Throttled, after: 3 * time.Second}},
		"503":                       {503, nil, `upstream connect error`, want{kind: Transient}},
		"200 with a limit in words": {200, nil, `{"error":{"message":"Rate limit exceeded, try again in 4s"}}`, want{kind: Throttled, after: 4 * time.Second}},
		"200 with an error":         {200, nil, `{"error":{"message":"The engine failed."}}`, want{kind: Transient}},

		"quota as 429":    {429, nil, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`, want{kind: Quota}},
		"quota as 402":    {402, nil, `{"error":{"message":"Insufficient credits"}}`, want{kind: Quota}},
		"quota as 400":    {400, nil, `{"error":{"message":"Your credit balance is too low to access the API."}}`, want{kind: Quota}},
		"401":             {401, nil, `{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}`, want{kind: Auth}},
		"403":             {403, nil, `forbidden`, want{kind: Auth}},
		"key as 400":      {400, nil, `{"error":{"message":"Invalid API key"}}`, want{kind: Auth}},
		"unknown model":   {404, nil, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, want{kind: Auth}},
		"wrong path":      {404, nil, `{"detail":"Not Found"}`, want{kind: Auth}},
		"redirect":        {302, nil, ``, want{kind: Auth}},
		"OpenAI window":   {400, nil, `{"error":{"message":"This model's maximum context length is 4096 tokens.","code":"context_length_exceeded"}}`, want{kind: TooLong}},
		"vLLM window":     {400, nil, `{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}`, want{kind: TooLong}},
		"llama.cpp batch": {500, nil, `{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}`, want{kind: TooLong}},
		"llama.cpp ctx":   {400, nil, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`, want{kind: TooLong}},
		"413":             {413, nil, ``, want{kind: TooLong}},
		"filter":          {400, nil, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter"}}`, want{kind: BadAnswer, reason: Refusal}},
		"422":             {422, nil, `{"detail":[{"loc":["body","input"],"msg":"field required"}]}`, want{kind: Invalid}},
		"max_tokens": {400, nil, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`,
			want{kind: Invalid, parameter: "max_tokens"}},
		"max_completion_tokens": {400, nil, `{"error":{"message":"Unknown field: max_completion_tokens"}}`, want{kind: Invalid, parameter: "max_completion_tokens"}},
		"temperature": {400, nil, `{"error":{"message":"Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.","param":"temperature","code":"unsupported_value"}}`,
			want{kind: Invalid, parameter: "temperature"}},
		"temperature out of range":      {400, nil, `{"error":{"message":"temperature must be at most 1"}}`, want{kind: Invalid, parameter: "temperature"}},
		"a request that quotes a limit": {400, nil, `{"error":{"message":"messages[0] is invalid: rate limit"}}`, want{kind: Invalid}},
		"500":                           {500, nil, `<html>Internal Server Error</html>`, want{kind: Transient}},
		"502":                           {502, nil, ``, want{kind: Transient}},
		"408":                           {408, nil, ``, want{kind: Transient}},
	} {
		if tc.header == nil {
			tc.header = http.Header{}
		}
		e := classify(tc.status, tc.header, []byte(tc.body), now)
		if got := (want{e.Kind, e.Reason, e.RetryAfter, e.parameter}); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
		if e.Message == "" && tc.body != "" {
			t.Errorf("%s: no message", name)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(429, "1", `{"error":{"message":"try again in 1e99s"}}`)
	f.Add(200, "-1", `{"error":null}`)
	f.Fuzz(func(t *testing.T, status int, after, body string) {
		e := classify(status, http.Header{"Retry-After": {after}}, []byte(body), time.Unix(0, 0))
		if e.Kind == "" || e.RetryAfter < 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestIsErrorText(t *testing.T) {
	for text, want := range map[string]bool{
		`{"error": {"message": "x"}}`:                                   true,
		` {"object":"error","message":"x"} `:                            true,
		`Rate limit exceeded`:                                           true,
		`Error: Rate limit reached for requests. Try again in 20s.`:     true,
		`429 Too Many Requests`:                                         true,
		`Too many requests, please try again later.`:                    true,
		`Error code: 429 - {'error': {'message': 'slow down'}}`:         true,
		`Internal Server Error`:                                         true,
		`502 Bad Gateway`:                                               true,
		`<html><head></head></html>`:                                    true,
		`<!DOCTYPE html><p>`:                                            true,
		`You have exceeded your rate limit.`:                            true,
		`The server is currently overloaded. Please try again later.`:   true,
		`{"error": null, "summary": "fine"}`:                            false,
		`{"name": "value"}`:                                             false,
		`{broken`:                                                       false,
		`Too many requests are answered with 429 and a header.`:         false,
		`Internal server errors are retried by the client three times.`: false,
		`429 soldiers crossed the river in spring and built a camp.`:    false,
		`500 years ago the town was founded by monks from the south.`:   false,
		`The service unavailable in winter is offered in summer.`:       false,
		`Rates of limits were exceeded.`:                                false,
		``:                                                              false,
	} {
		if got := isErrorText(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
