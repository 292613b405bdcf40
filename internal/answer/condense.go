package answer

import (
	"context"
	"strings"

	"github.com/aerie-rag/aerie/internal/llm"
	"github.com/aerie-rag/aerie/internal/mapreduce"
	"github.com/aerie-rag/aerie/internal/printable"
	"github.com/aerie-rag/aerie/internal/tree"
)

// Turn is what one side of a conversation said.
type Turn struct {
	Person bool // else the answer
	Text   string
}

const (
	// mostTurns is how many of the last turns a question is read with: what is further back is seldom meant.
	mostTurns = 6
	// turnTokens is how much of a turn is read.
	turnTokens = 200
	// condensedTokens bounds a question that was made to stand alone, with the reasoning of a model that reasons.
	condensedTokens = 400
)

const condensePrompt = `Below is a conversation and the next question. Write the question so that it can be understood without the conversation: put in what "it", "they", "there" or "the second one" stand for, and change nothing else. If it can be understood as it is, repeat it. Write the question only.

Conversation:
`

// Condense makes a question stand alone that was asked after others. Without a model, or where it fails, the words of the person's
// question before are added, which finds what both are about. The usage is what it took. The error is that of the context.
func (a *Answerer) Condense(ctx context.Context, earlier []Turn, question string) (string, tree.Usage, error) {
	if len(earlier) == 0 {
		return question, tree.Usage{}, nil
	}
	if len(earlier) > mostTurns {
		earlier = earlier[len(earlier)-mostTurns:]
	}
	if a.model == nil {
		return besides(earlier, question), tree.Usage{}, nil
	}
	var b strings.Builder
	b.WriteString(condensePrompt)
	for _, t := range earlier {
		who := "Answer: "
		if t.Person {
			who = "Question: "
		}
		b.WriteString(who + a.head(t.Text, turnTokens) + "\n")
	}
	b.WriteString("\nNext question: " + question)
	prompt := b.String()
	tokens := a.counter.Count(prompt)
	if tokens+mapreduce.MessageTokens+condensedTokens > a.cfg.ContextTokens {
		return besides(earlier, question), tree.Usage{}, nil
	}
	reply, err := a.model.Complete(ctx, llm.Request{Prompt: prompt, PromptTokens: tokens, MaxOutputTokens: condensedTokens}, nil)
	if ctx.Err() != nil {
		return "", tree.Usage{}, ctx.Err()
	}
	if err != nil { // the answer will say what is wrong, if it goes on
		return besides(earlier, question), tree.Usage{}, nil
	}
	spent := tree.Usage{Calls: 1, InputTokens: reply.InputTokens, OutputTokens: reply.OutputTokens}
	if llm.Examine(&reply) == "" {
		if condensed := oneLine(reply.Text); len(condensed) <= 4*len(question)+400 { // a longer one is an answer, not a question
			return condensed, spent, nil
		}
	}
	return besides(earlier, question), spent, nil
}

// besides is the question with the person's question before it.
func besides(earlier []Turn, question string) string {
	for i := len(earlier) - 1; i >= 0; i-- {
		if earlier[i].Person {
			return question + " (" + oneLine(earlier[i].Text) + ")"
		}
	}
	return question
}

// head is the beginning of a text, in one line.
func (a *Answerer) head(text string, tokens int) string {
	words := strings.Fields(oneLine(text))
	for n := min(len(words), tokens); ; n = n * 3 / 4 {
		if short := strings.Join(words[:n], " "); n == 0 || a.counter.Count(short) <= tokens {
			return short
		}
	}
}

func oneLine(text string) string {
	return strings.Trim(strings.Join(strings.Fields(printable.Text(text)), " "), `"`)
}
