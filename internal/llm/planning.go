package llm

import (
	"regexp"
	"strings"
	"unicode"
)

// refusePlanning refuses an answer that begins with what a model says to itself about the task, without any mark, or that
// asks for the passages. What the source says in the same words is part of the text.
func refusePlanning(r *Reply, source []string) Reason {
	for reason, pattern := range openings {
		if m := pattern.FindString(strings.TrimLeft(r.Text, "*_#>\"“' \n")); m != "" && !holds(source, lettersAtStart(m)) {
			return reason
		}
	}
	return ""
}

// lettersAtStart returns m from its first letter on, so that it can be searched for.
func lettersAtStart(m string) string {
	if i := strings.IndexFunc(m, unicode.IsLetter); i > 0 {
		return m[i:]
	}
	return m
}

const (
	wanting = `(?:wants?|would like|is asking|asks?|asked|has asked|needs?|gave|has given|provided?|has provided|requests?|requested|is requesting|expects?|shared)`
	working = `(?:summari[sz]e|produce|write|condense|craft|create|generate|provide|give|draft|compose|come up|respond|answer|read|go through|start|begin|look|analy[sz]e|think|see|parse|break|figure|make sure|extract|identify|tackle|understand|review|keep|focus|follow|output|do this|combine|distill)`
)

// openings are the first words of what isn't a summary, by reason. They were collected from what models answer to the
// prompt for summaries and from reports about their untagged reasoning.
var openings = map[Reason]*regexp.Regexp{
	Planning: regexp.MustCompile(`(?i)^(?:` +
		`(?:okay|ok|alright|all right|hmm+|right|so|well|now|got it|let['’]?s see|first(?:ly)?)[,.!:…]* *(?:okay|so|then|first|now|well)?,? *(?:the user|let me|let['’]s|let us|i need|i have|i should|i must|i['’]ll|i will|i['’]m going|i am going|we need|we have|we must|we should|we['’]ll|here['’]?s (?:what|how|the plan)|this is a (?:request|task)|the task|my task|looking at the)` +
		`|the user ` + wanting + `\b.{0,40}?\b(?:me|us|a summary|summar|passages?|the text|condense|short)` +
		`|(?:we|i)(?: now)? (?:need|have|must|should|are asked|am asked|are told|am told|are to|am to|want|will|['’]ll|need first)(?: to)?,? (?:first |now |carefully )?` + working + `\b` +
		`|(?:we|i)['’](?:ll|m going to|re going to) ` + working + `\b` +
		`|let(?:['’]s| me| us)(?: first| now)? ` + working + `\b` +
		`|(?:my|the|our) (?:task|goal|job|instructions?) (?:here )?(?:is|are|says?) (?:to )?` +
		`|(?:thinking|reasoning|analysis|thought process|plan|step 1|chain of thought) *:` +
		`|(?:the )?(?:prompt|instructions?|question|request) (?:asks?|says?|wants?|requires?)\b` +
		`|(?:好的|好|嗯|首先)[，,。：:]? *.{0,6}(?:用户|我需要|我们需要|让我|我来|我要|我应该)|用户(?:要求|希望|想要|让我|需要我)|(?:我|我们)(?:需要|来|要|应该)(?:先)?(?:总结|概括|归纳|分析|阅读)` +
		`)`),
	AsksBack: regexp.MustCompile(`(?i)^(?:(?:sure|certainly|of course|absolutely|okay|ok|hello|hi|yes)[!,.]* *)?(?:` +
		`(?:could you |can you |would you )?please (?:provide|share|paste|supply|give|send|insert|upload|enter|add|include)\b.{0,60}?\b(?:passages?|texts?|content|articles?|documents?|material|information|input|it|them|paragraphs?)` +
		`|(?:it (?:seems|looks|appears)(?: like| that)?|i (?:notice|see|think)(?: that)?|unfortunately,?) *(?:that )?(?:you |there |no |the passages?|the text|your )(?:.{0,60}?)(?:provid|includ|passages?|text|empty|missing|forgot)` +
		`|(?:i['’]m|i am) (?:ready|happy|here|glad) to (?:help|assist|summari[sz]e)` +
		`|i['’]?(?:d| would) be (?:happy|glad) to (?:help|assist|summari[sz]e)` +
		`|you (?:haven['’]t|have not|didn['’]t|did not) (?:provided?|includ|shared?|given?)` +
		`|(?:there (?:is|are|was|were) )?no (?:passages?|text|content|input)s? (?:was|were|is|are|has|have|provided|given|found|to summari)` +
		`|i (?:don['’]t|do not) (?:see|have|find) (?:any |the |a )?(?:passages?|text|content)` +
		`|how (?:can|may) i (?:help|assist)|what (?:would|do) you (?:like|want) me` +
		`|请(?:您)?提供|您(?:还)?没有提供|(?:有什么|我能)(?:可以)?(?:帮|为)` +
		`)`),
}
