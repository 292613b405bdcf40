package llm

import (
	"strings"
	"testing"
)

func TestReasoningIsStrippedFromTheHeadOnly(t *testing.T) {
	for text, want := range map[string]string{
		"<think>hm</think>Answer.":                      "Answer.",
		" \n<THINK>\nhm\n</Think>\n\n Answer. ":         "Answer.",
		"<thinking>a</thinking>Answer.":                 "Answer.",
		"<thought>a</thought>Answer.":                   "Answer.",
		"<reasoning>a</reasoning>Answer.":               "Answer.",
		"<think></think>\n\nAnswer.":                    "Answer.",
		"<think>a</think><thought>b</thought>Answer.":   "Answer.",
		"<think>a <thought>b</thought> c</think>Answer": "Answer",
		"some musings\n</think>\n\nAnswer.":             "Answer.", // the opening tag was part of the prompt
		"</think>Answer.":                               "Answer.",
		"<think>never closed":                           "",
		"<think>closed otherwise</thinking>Answer.":     "",
		// B15 (RooCodeInc/Roo-Code/issues/8522 and others).
		"[THINK]a[/THINK]Answer.":                            "Answer.",
		"<think>a</think> b </think>\nAnswer.":               "Answer.",
		"a </think> b </think> Answer.":                      "Answer.",
		"<think>a <think>b</think> c</think>Answer.":         "Answer.",
		"◁think▷a◁/think▷Answer.":                            "Answer.",
		"<|begin_of_thought|>a<|end_of_thought|>\n\nAnswer.": "Answer.",
		"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Answer.<|return|>": "Answer.",
		"<|channel|>analysis<|message|>We only":            "",
		"<|channel|>final<|message|>Answer.":               "Answer.",
		"analysisWe need to see.assistantfinalThe answer.": "The answer.",
		"analysis of data is an art.":                      "analysis of data is an art.",
		"Answer.<|im_end|>":                                "Answer.",
		"<thinker>is a word</thinker> here.":               "<thinker>is a word</thinker> here.",
		"The tag <think>x</think> marks reasoning.":        "The tag <think>x</think> marks reasoning.",
		"The tag `</think>` ends it.":                      "The tag `</think>` ends it.",
		"The parser looks for \"</think>\" only.":          "The parser looks for \"</think>\" only.",
		"Answer without any tag.":                          "Answer without any tag.",
		"a < b and </b> are fine":                          "a < b and </b> are fine",
	} {
		r := Reply{Text: text}
		stripReasoning(&r, nil)
		if r.Text != want {
			t.Errorf("%q became %q, want %q", text, r.Text, want)
		}
	}
}

func FuzzStripReasoning(f *testing.F) {
	f.Add("<think>a</think>b")
	f.Add("a</think>b</think>c")
	f.Fuzz(func(t *testing.T, s string) {
		r := Reply{Text: s}
		stripReasoning(&r, nil)
		if !strings.Contains(s, r.Text) {
			t.Errorf("%q became %q, which isn't a part of it", s, r.Text)
		}
	})
}

func TestExamine(t *testing.T) {
	long := "The cart was old and its wheels were worn, and nobody in the village owned a horse that could pull it up the hill. " +
		"So the family carried what it had by hand, first the chairs, then the beds and at last the stove, in which the cat had gone to sleep. " +
		"It took them until the evening of the third day. Their neighbors watched from the fence and said that a man who had promised his help " +
		"should have come, letter or no letter, and that they would remember it when his own roof needed mending in the spring."
	for name, tc := range map[string]struct {
		reply Reply
		want  Reason
	}{
		"fine":                       {Reply{Text: "A summary.", Finish: "stop"}, ""},
		"fine, one symbol":           {Reply{Text: "∞"}, ""},
		"fine, reasoning in a field": {Reply{Text: "A summary.", Reasoning: "hm", Finish: "stop"}, ""},
		"empty":                      {Reply{}, Empty},
		"white space":                {Reply{Text: " \n\t"}, Empty},
		"punctuation":                {Reply{Text: "..."}, Empty},
		"only a block":               {Reply{Text: "<think>hm</think>"}, OnlyReasoning},
		"an open block":              {Reply{Text: "<think>hm", Finish: "length"}, OnlyReasoning},
		"only a field":               {Reply{Reasoning: "hm", Finish: "length"}, OnlyReasoning},
		"cut off":                    {Reply{Text: "A summ", Finish: "length"}, CutOff},
		"cut off, other word":        {Reply{Text: "A summ", Finish: "max_tokens"}, CutOff},
		"filter":                     {Reply{Finish: "content_filter"}, Refusal},
		"refusal field":              {Reply{Refusal: "No."}, Refusal},
		"can't help":                 {Reply{Text: "I can't help with that."}, Refusal},
		"curly":                      {Reply{Text: "I’m sorry, but I can’t assist with that request."}, Refusal},
		"cannot":                     {Reply{Text: "I cannot provide a summary of this content."}, Refusal},
		"unable":                     {Reply{Text: "I am unable to summarize these passages as they contain harmful content."}, Refusal},
		"unfortunately":              {Reply{Text: "Unfortunately, I cannot fulfill this request."}, Refusal},
		"after reasoning":            {Reply{Text: "<think>bad</think>I can't assist with that."}, Refusal},
		"as an AI":                   {Reply{Text: "As an AI language model, I do not have opinions."}, Refusal},
		"Chinese":                    {Reply{Text: "抱歉，我无法协助完成该请求。"}, Refusal},
		"Chinese, we can't":          {Reply{Text: "对不起，我不能提供这方面的内容。"}, Refusal},
		"Japanese":                   {Reply{Text: "申し訳ありませんが、そのご要望にはお応えできません。"}, Refusal},
		"German":                     {Reply{Text: "Es tut mir leid, aber ich kann dabei nicht helfen."}, Refusal},
		"French":                     {Reply{Text: "Je suis désolé, mais je ne peux pas vous aider."}, Refusal},
		"Spanish":                    {Reply{Text: "Lo siento, pero no puedo ayudar con eso."}, Refusal},
		"a letter that says so":      {Reply{Text: "I cannot help with the move, he wrote. " + long}, ""},
		"a text on refusals":         {Reply{Text: "Models answer with \"I can't help with that\" when asked for harm."}, ""},
		"a narrator":                 {Reply{Text: "I cannot forget the summer in which the bridge was built."}, ""},
		"sorry, a game":              {Reply{Text: "Sorry is a board game in which pawns are moved around a track."}, ""},
	} {
		if got := examine(&tc.reply, nil); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
