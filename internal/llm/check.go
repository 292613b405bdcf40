package llm

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// check is one stage of the examination of an answer. It may clean the reply's text; source is what the answer was made
// from, where that is known. A reason other than "" refuses the answer; the stages that follow don't see it.
type check func(r *Reply, source []string) Reason

// checks are run in this order. Reasoning is taken away first, since what is left decides. Whether it is cut off comes
// after whether it is empty: a model that spent its output on reasoning is both, and the first says more. Loops come last:
// an answer that ran into its bound may be trimmed.
var checks = []check{stripReasoning, refuseRefusal, refuseFailed, refuseEmpty, refusePlanning, refuseCutOff, refuseLoops}

// examine runs the checks.
func examine(r *Reply, source []string) Reason {
	for _, c := range checks {
		if reason := c(r, source); reason != "" {
			return reason
		}
	}
	return ""
}

// refuseRefusal refuses what the model or the provider calls a refusal, and the well-known phrases of one.
func refuseRefusal(r *Reply, _ []string) Reason {
	if r.Refusal != "" || endOf(r.Finish) == endFiltered {
		return Refusal
	}
	if utf8.RuneCountInString(r.Text) <= longestRefusal && refusalText.MatchString(r.Text) {
		return Refusal
	}
	return ""
}

// longestRefusal is the length in runes up to which a text is taken for a refusal by its first words. A summary that
// tells of somebody who couldn't help goes on for longer.
const longestRefusal = 500

var refusalText = regexp.MustCompile(`(?i)^["'“]?(?:` +
	`(?:(?:i['’]?m|i am) (?:very |really |so |truly )?sorry|sorry|i apologi[sz]e|my apologies|unfortunately)\b[^.!?]{0,60}?\bi (?:can['’]?t|cannot|can not|won['’]?t|am unable|['’]?m unable|am not able|do not|don['’]?t)\b` +
	`|i(?:['’]m| am) (?:unable|not able|not comfortable|not allowed|not permitted)(?: to)? (?:help|assist|comply|fulfil?l|provide|summari[sz]e|create|generate|write|process|engage|do|continue|answer)` +
	`|i (?:can['’]?t|cannot|can not|won['’]?t|must decline|will not)(?: be able)?(?: to)? (?:help|assist|comply|fulfil?l|provide (?:a |this |that |any )|summari[sz]e|create|generate|write|process|engage|do that|do this|continue|answer|support|discuss|in good)` +
	`|i (?:must|have to|need to) (?:decline|refuse)` +
	`|as an? (?:ai|artificial intelligence|large language model|language model)\b` +
	`|(?:很)?(?:抱歉|对不起)[，,]?\s*(?:但)?(?:我)?(?:无法|不能|没办法)|我(?:无法|不能)(?:协助|帮助|提供|回答|完成)` +
	`|(?:申し訳(?:ありません|ございません)|すみません)[^。]{0,30}(?:できません|お手伝い|お答え)` +
	`|(?:es )?tut mir leid,? (?:aber )?(?:ich kann|dabei kann ich|das kann ich)` +
	`|(?:je suis )?désolée?,? (?:mais )?je (?:ne peux|ne suis)` +
	`|lo siento,? (?:pero )?(?:no puedo|no es posible)` +
	`|(?:desculpe|sinto muito),? (?:mas )?(?:não posso|eu não posso)` +
	`|(?:к сожалению|извините|простите),? (?:но )?я не могу` +
	`)`)

// refuseEmpty refuses an answer in which no letter, digit or symbol is left.
func refuseEmpty(r *Reply, _ []string) Reason {
	if strings.IndexFunc(r.Text, isContent) >= 0 && !isNothing(r.Text) {
		return ""
	}
	if strings.TrimSpace(r.Reasoning) != "" {
		return OnlyReasoning
	}
	return Empty
}

func isContent(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsSymbol(c)
}

// isNothing reports what programs print for no value.
func isNothing(s string) bool {
	switch strings.ToLower(strings.Trim(s, ".`'\" ")) {
	case "null", "none", "nil", "undefined", "nan", "n/a", "[object object]", "true", "false":
		return true
	}
	return false
}

// refuseCutOff refuses an answer that ran into its bound.
func refuseCutOff(r *Reply, _ []string) Reason {
	if endOf(r.Finish) == endCutOff {
		return CutOff
	}
	return ""
}

// refuseFailed refuses an answer that ended in a way that is neither good nor one of the others: the server failed in the
// middle of it, or called a tool.
func refuseFailed(r *Reply, _ []string) Reason {
	if endOf(r.Finish) == endFailed {
		return Failed
	}
	return ""
}

// end is how an answer ended.
type end int

const (
	endGood end = iota
	endCutOff
	endFiltered
	endFailed
)

// endOf sorts the values of finish_reason in use. The list is of the good ones: what isn't known is no good end.
func endOf(finish string) end {
	switch f := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(finish), "-", "_")); f {
	case "", "stop", "eos", "eos_token", "end_turn", "end_of_turn", "stop_sequence", "stop_token", "stop_str", "stopped", "stop_word",
		"end", "end_of_sequence", "end_of_text", "complete", "completed", "done", "finish", "finished", "natural", "normal", "success",
		"unspecified", "finish_reason_unspecified", "finish_reason_stop":
		return endGood
	case "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "max_length", "token_limit",
		"model_length", "context_length", "model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded",
		"incomplete", "truncated", "limit", "finish_reason_max_tokens", "error_limit":
		return endCutOff
	case "content_filter", "content_filtered", "safety", "refusal", "refused", "recitation", "blocklist", "prohibited_content", "spii",
		"image_safety", "sensitive", "guardrail_intervened", "moderation", "blocked", "policy_violation", "error_toxic", "language":
		return endFiltered
	}
	return endFailed
}
