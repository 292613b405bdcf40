package llm

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// thought is a way to mark reasoning in an answer: it stands between opening and closing, in any case of letters.
type thought struct{ opening, closing string }

// thoughts are the ways in use. Those with channels are of models that answer in several, of which the last is for people.
var thoughts = []thought{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"<thought>", "</thought>"},
	{"<thoughts>", "</thoughts>"},
	{"<reasoning>", "</reasoning>"},
	{"<reflection>", "</reflection>"},
	{"<analysis>", "</analysis>"},
	{"<scratchpad>", "</scratchpad>"},
	{"<seed:think>", "</seed:think>"},
	{"<|think|>", "<|/think|>"},
	{"<|thinking|>", "<|/thinking|>"},
	{"[think]", "[/think]"},
	{"[thinking]", "[/thinking]"},
	{"[reasoning]", "[/reasoning]"},
	{"◁think▷", "◁/think▷"},
	{"<|begin_of_thought|>", "<|end_of_thought|>"},
	{"<|start_thinking|>", "<|end_thinking|>"},
	{"<|channel|>analysis", finalChannel},
	{"<|channel|>commentary", finalChannel},
	{"<|start|>assistant<|channel|>analysis", finalChannel},
	{"<|start|>assistant<|channel|>commentary", finalChannel},
}

const finalChannel = "<|channel|>final<|message|>"

// leadingMarks and trailingMarks are what templates leave around an answer.
var (
	leadingMarks = []string{"<|start|>assistant" + finalChannel, finalChannel, "<|start_header_id|>assistant<|end_header_id|>",
		"<|im_start|>assistant", "<|begin_of_solution|>", "<|start_response|>", "<|assistant|>", "<answer>"}
	trailingMarks = []string{"<|return|>", "<|end|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end_of_solution|>",
		"<|end_response|>", "<|eom_id|>", "<end_of_turn>", "</s>", "<eos>", "</answer>"}
)

// stripReasoning takes leading blocks of reasoning off the text, and the marks of templates and white space around it. A
// block that isn't closed takes all. A closing mark without an opening one ends reasoning whose opening was part of the
// prompt, or reasoning within reasoning. A mark anywhere else is part of the text.
func stripReasoning(r *Reply, source []string) Reason {
	text := strings.TrimSpace(r.Text)
	for {
		t, after, ok := leadingThought(text)
		if !ok {
			break
		}
		end := indexFold(after, t.closing)
		if end < 0 {
			r.Reasoning += after
			text = ""
			break
		}
		r.Reasoning += after[:end]
		text = strings.TrimSpace(after[end+len(t.closing):])
	}
	text = spokenChannels(r, text)
	text = afterLoneClosing(r, text, source)
	for _, m := range leadingMarks {
		if after, ok := cutPrefixFold(text, m); ok {
			text = strings.TrimSpace(after)
		}
	}
	for trimmed := true; trimmed; {
		trimmed = false
		for _, m := range trailingMarks {
			if len(text) >= len(m) && strings.EqualFold(text[len(text)-len(m):], m) {
				text, trimmed = strings.TrimSpace(text[:len(text)-len(m)]), true
			}
		}
	}
	r.Text = text
	return ""
}

// leadingThought returns the reasoning that a text begins with, and what follows its opening.
func leadingThought(s string) (t thought, after string, ok bool) {
	for _, t := range thoughts {
		if after, ok := cutPrefixFold(s, t.opening); ok {
			return t, after, true
		}
	}
	return thought{}, "", false
}

// spokenChannels drops the reasoning of an answer whose channels have lost their marks: "analysisWe need …assistantfinalThe …".
func spokenChannels(r *Reply, text string) string {
	after, ok := strings.CutPrefix(text, "analysis")
	if first, _ := utf8.DecodeRuneInString(after); !ok || first < 'A' || first > 'Z' {
		return text
	}
	before, answer, ok := strings.Cut(after, "assistantfinal")
	if !ok {
		return text
	}
	r.Reasoning += before
	return strings.TrimSpace(answer)
}

// afterLoneClosing drops what stands before closing marks that were never opened. A mark in quotes or in code, or after an
// opening one, is part of what the text is about; so is one that the source holds, unless it stands at the end of a line.
func afterLoneClosing(r *Reply, text string, source []string) string {
	from, cut := 0, -1
	for {
		start, end, mark := nextClosing(text, from)
		if start < 0 {
			break
		}
		from = end
		if cut < 0 && opensBefore(text[:start]) || quoted(text, start, end) {
			continue
		}
		if holds(source, mark) && !strings.HasPrefix(strings.TrimLeft(text[end:], " \t\r"), "\n") {
			continue
		}
		cut = end
	}
	if cut < 0 {
		return text
	}
	r.Reasoning += text[:cut]
	return strings.TrimSpace(text[cut:])
}

// nextClosing finds the first closing mark at or after from: where it starts and ends, -1 if there is none.
func nextClosing(s string, from int) (start, end int, mark string) {
	start = -1
	for _, t := range thoughts {
		if i := indexFold(s[from:], t.closing); i >= 0 && (start < 0 || from+i < start) {
			start, end, mark = from+i, from+i+len(t.closing), t.closing
		}
	}
	return start, end, mark
}

// opensBefore reports whether an opening mark stands anywhere in s.
func opensBefore(s string) bool {
	for _, t := range thoughts {
		if indexFold(s, t.opening) >= 0 {
			return true
		}
	}
	return false
}

// quoted reports whether s[start:end] stands in quotes or in code.
func quoted(s string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[end:])
	const quotes = "`'\"“”‘’«»„"
	return start > 0 && strings.ContainsRune(quotes, before) || end < len(s) && strings.ContainsRune(quotes, after)
}

// holds reports whether any of the texts has s, in any case of letters.
func holds(texts []string, s string) bool {
	for _, t := range texts {
		if indexFold(t, s) >= 0 {
			return true
		}
	}
	return false
}

func cutPrefixFold(s, prefix string) (after string, ok bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return "", false
}

// indexFold is strings.Index in any case of letters; sub begins with a character that has no case.
func indexFold(s, sub string) int {
	first := sub[:1]
	for at := 0; ; at++ {
		i := strings.Index(s[at:], first)
		if i < 0 || at+i+len(sub) > len(s) {
			return -1
		}
		at += i
		if strings.EqualFold(s[at:at+len(sub)], sub) {
			return at
		}
	}
}

// thoughtGate keeps back the white space and the blocks of reasoning that lead an answer.
type thoughtGate struct {
	on   func(string)
	held string
	open bool
}

func (g *thoughtGate) write(s string) {
	if s == "" {
		return
	}
	if g.open {
		g.on(s)
		return
	}
	g.held = strings.TrimLeftFunc(g.held+s, unicode.IsSpace)
	for g.held != "" {
		t, after, ok := leadingThought(g.held)
		if !ok {
			break
		}
		end := indexFold(after, t.closing)
		if end < 0 {
			return
		}
		g.held = strings.TrimLeftFunc(after[end+len(t.closing):], unicode.IsSpace)
	}
	if g.held == "" || mayLead(g.held) {
		return
	}
	g.open = true
	g.on(g.held)
	g.held = ""
}

// mayLead reports whether a text may become an opening mark.
func mayLead(s string) bool {
	for _, t := range thoughts {
		if len(s) < len(t.opening) && strings.EqualFold(s, t.opening[:len(s)]) {
			return true
		}
	}
	return false
}
