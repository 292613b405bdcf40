package printable

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestA25Masks: what is named like a secret is masked, in addresses and in parameters, and nothing else is.
func TestA25Masks(t *testing.T) {
	for text, want := range map[string]string{
		"http://h:1/v1": "http://h:1/v1",
		"https://h/v1?api_key=sk-1&api-version=2024-06":    "https://h/v1?api_key=****&api-version=2024-06",
		"https://h/v1?X-Api-Key=sk-1#part":                 "https://h/v1?X-Api-Key=****#part",
		"https://h/v1?sig=sk-1&code=sk-1&accessToken=sk-1": "https://h/v1?sig=****&code=****&accessToken=****",
		"https://h/v1?api%5Fkey=sk-1":                      "https://h/v1?api%5Fkey=****",
		"nats://me:sk-1@h:4222":                            "nats://****@h:4222",
		"nats://me:sk-1@a:1,nats://me:sk-1@b:2,nats://c:3": "nats://****@a:1,nats://****@b:2,nats://c:3",
		"redis://me:sk,-1@h":                               "redis://****@h",
		"redis://me:sk/?-1@h":                              "redis://****@h",
		"me:sk-1@h:4222":                                   "****@h:4222",
		"http://h:8080/v1/@cf/model":                       "http://h:8080/v1/@cf/model",
		"nats://sk-1@h":                                    "nats://****@h",
		"what is this?":                                    "what is this?",
	} {
		if got := URL(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	got := Values(map[string]any{
		"token": "sk-1", "API-KEY": "sk-1", "max_tokens": 5, "top_p": 0.5, "tokenizer": "cl100k", "auth": map[string]any{"user": "sk-1"},
		"extra_headers": map[string]any{"X-Whatever": "sk-1"}, "list": []any{map[string]any{"clientSecret": "sk-1"}}, "callback": "http://u:sk-1@h/?key=sk-1",
		"keys": []any{"sk-1", "sk-2"}, "monkey": "banana", "passage": "text",
	})
	want := map[string]any{
		"token": Mask, "API-KEY": Mask, "max_tokens": 5, "top_p": 0.5, "tokenizer": "cl100k", "auth": Mask,
		"extra_headers": map[string]any{"X-Whatever": Mask}, "list": []any{map[string]any{"clientSecret": Mask}}, "callback": "http://****@h/?key=****",
		"keys": []any{Mask, Mask}, "monkey": "banana", "passage": "text",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func FuzzURL(f *testing.F) {
	f.Add("http://u:p@h/?api_key=", "x")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "sk-do-not-show-me"
		if strings.ContainsAny(before, "#&;=?,") || strings.ContainsAny(after, "#,") {
			return
		}
		for _, text := range []string{"http://h/" + before + "?api_key=" + secret + "&x=" + after} {
			if got := URL(text); strings.Contains(got, secret) {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}
