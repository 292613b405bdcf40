package openai

import (
	"encoding/json"
	"regexp"
	"strings"
)

// chores are what chat programs ask of a model about the conversation itself, told by the words that they ask with: Open WebUI's
// tasks begin with "### Task:" and say the JSON that they want, LibreChat asks for a title in two ways. An answer is made from the
// conversation alone: the corpus knows nothing of it, and no model is paid for it.
var chores = []struct {
	words *regexp.Regexp
	done  func(asked string) string
}{
	{regexp.MustCompile(`(?is)^### Task:.*"title":`), func(topic string) string { return asJSON("title", topic) }},
	{regexp.MustCompile(`(?is)^### Task:.*"tags":`), func(string) string { return asJSON("tags", []string{}) }},
	{regexp.MustCompile(`(?is)^### Task:.*"follow_ups":`), func(string) string { return asJSON("follow_ups", []string{}) }},
	{regexp.MustCompile(`(?is)^### Task:.*"queries":`), func(string) string { return asJSON("queries", []string{}) }},
	{regexp.MustCompile(`(?is)^### Task:.*autocompletion`), func(string) string { return asJSON("text", "") }},
	{regexp.MustCompile(`(?is)^### Task:.*<chat_history>`), func(topic string) string { return topic }},
	{regexp.MustCompile(`(?is)^analyze this conversation and provide:.*concise title`), func(topic string) string { return asJSON("title", topic) }},
	{regexp.MustCompile(`(?is)concise,? (?:5-word-or-less )?title (?:for|\(max).*conversation`), func(topic string) string { return topic }},
}

// chore does what a chat program asks about the conversation; ok is false for a question of a person.
func chore(text string, messages []message) (done string, ok bool) {
	for _, c := range chores {
		if c.words.MatchString(text) {
			return c.done(topic(text, messages)), true
		}
	}
	return "", false
}

// spoken is a line of a conversation within a chore.
var spoken = regexp.MustCompile(`(?im)^\s*(?:user|human):\s*(.+)$`)

// topic is what the person said first, short: in the words of the chore, or in the messages before it.
func topic(text string, messages []message) string {
	first := ""
	if m := spoken.FindStringSubmatch(text); m != nil {
		first = m[1]
	}
	for _, m := range messages {
		if first == "" && m.Role == "user" && string(m.Content) != text {
			first = string(m.Content)
		}
	}
	const most = 6 // words
	words := strings.Fields(strings.Trim(first, "\"'` "))
	if len(words) > most {
		words = append(words[:most:most], "…")
	}
	title := strings.TrimRight(strings.Join(words, " "), ".?!,:; ")
	if title == "" {
		return "Conversation"
	}
	return title
}

func asJSON(key string, value any) string {
	text, err := json.Marshal(map[string]any{key: value})
	if err != nil {
		panic("texts always encode: " + err.Error())
	}
	return string(text)
}
