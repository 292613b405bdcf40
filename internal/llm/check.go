package llm

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// check is one stage of the examination of an answer. It may clean the reply's text. A reason other than "" refuses the
// answer; the stages that follow don't see it.
type check func(*Reply) Reason

// checks are run in this order. Reasoning is taken away first, since what is left decides. Whether it is cut off comes
// after whether it is empty: a model that spent its output on reasoning is both, and the first says more.
var checks = []check{stripReasoning, refuseRefusal, refuseEmpty, refuseCutOff}

// examine runs the checks.
func examine(r *Reply) Reason {
	for _, c := range checks {
		if reason := c(r); reason != "" {
			return reason
		}
	}
	return ""
}

// thoughtTags are the names of blocks that hold reasoning.
var thoughtTags = []string{"think", "thinking", "thought", "reasoning"}

// stripReasoning takes leading blocks of reasoning off the text, and white space around it. A block that isn't closed
// takes all. A closing tag without an opening one ends reasoning whose opening tag was part of the prompt. A tag
// anywhere else is part of the text.
func stripReasoning(r *Reply) Reason {
	text := strings.TrimSpace(r.Text)
	opened := false
	for {
		name, after, ok := leadingTag(text)
		if !ok {
			break
		}
		opened = true
		_, end := findClosing(after, name)
		if end < 0 {
			r.Reasoning += after
			text = ""
			break
		}
		r.Reasoning += after[:end]
		text = strings.TrimSpace(after[end:])
	}
	if !opened {
		text = afterLoneClosing(r, text)
	}
	r.Text = strings.TrimSpace(text)
	return ""
}

// leadingTag returns the name of an opening tag at the start of a text, and what follows it.
func leadingTag(s string) (name, after string, ok bool) {
	if !strings.HasPrefix(s, "<") {
		return "", "", false
	}
	for _, name := range thoughtTags {
		n := len("<" + name + ">")
		if len(s) >= n && strings.EqualFold(s[:n], "<"+name+">") {
			return name, s[n:], true
		}
	}
	return "", "", false
}

// findClosing finds the first closing tag of a name; "" is any of them. It returns where the tag starts and ends, -1 if
// there is none.
func findClosing(s, name string) (start, end int) {
	for at := 0; ; {
		i := strings.Index(s[at:], "</")
		if i < 0 {
			return -1, -1
		}
		at += i
		for _, tag := range thoughtTags {
			n := len("</" + tag + ">")
			if (name == "" || name == tag) && len(s) >= at+n && strings.EqualFold(s[at:at+n], "</"+tag+">") {
				return at, at + n
			}
		}
		at += 2
	}
}

// afterLoneClosing drops what stands before a closing tag that was never opened. A tag in quotes or in code, or after an
// opening one, is part of what the text is about.
func afterLoneClosing(r *Reply, text string) string {
	start, end := findClosing(text, "")
	if start < 0 {
		return text
	}
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	const quotes = "`'\"“”‘’«»„"
	if strings.ContainsRune(quotes, before) && start > 0 || strings.ContainsRune(quotes, after) && end < len(text) {
		return text
	}
	for i := range start {
		if _, _, ok := leadingTag(text[i:start]); ok {
			return text
		}
	}
	r.Reasoning += text[:start]
	return text[end:]
}

// refuseRefusal refuses what the model or the provider calls a refusal, and the well-known phrases of one.
func refuseRefusal(r *Reply) Reason {
	if r.Refusal != "" || r.Finish == "content_filter" || r.Finish == "safety" || r.Finish == "refusal" {
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
func refuseEmpty(r *Reply) Reason {
	if strings.IndexFunc(r.Text, isContent) >= 0 {
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

// refuseCutOff refuses an answer that ran into its bound.
func refuseCutOff(r *Reply) Reason {
	if r.Finish == "length" || r.Finish == "max_tokens" {
		return CutOff
	}
	return ""
}
