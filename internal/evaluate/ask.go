package evaluate

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/aerie-rag/aerie/internal/retrieve"
	"github.com/aerie-rag/aerie/internal/word"
)

// Given is an answer that was given to a question.
type Given struct {
	Text      string
	Abstained bool // the answer is that the corpus has none
	// Calls and tokens are what the answer cost.
	Calls, InputTokens, OutputTokens int
}

// Asker answers questions.
type Asker interface {
	Ask(ctx context.Context, req retrieve.Request) (Given, error)
}

// Reply is what one arm made of one question. Exact, Contains and F1 are null for a question that the corpus doesn't answer, and 0
// where an answer was wanted and none was given.
type Reply struct {
	Question  string `json:"question"` // its id, or its number
	Type      string `json:"type"`
	Group     string `json:"group"`
	Arm       string `json:"arm"`
	Wanted    bool   `json:"wanted"`    // the corpus has an answer
	Abstained bool   `json:"abstained"` // which is right where none is wanted
	// Exact is 1 if the answer is one of the right ones, Contains if it holds one, both but for case, marks and articles. F1 is that of
	// the words of the answer and of the right one that is nearest.
	Exact    *float64 `json:"exact"`
	Contains *float64 `json:"contains"`
	F1       *float64 `json:"f1"`
	Answer   string   `json:"answer"`
	Error    string   `json:"error,omitempty"` // why there is no answer; the run went on

	Calls        int `json:"calls"`
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// AskedArm sums up one arm.
type AskedArm struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	// Exact, Contains and F1 are means over the questions for which an answer is wanted; 0 without one.
	Exact    float64 `json:"exact"`
	Contains float64 `json:"contains"`
	F1       float64 `json:"f1"`
	// RightAbstentions counts those of the questions without an answer, WrongAbstentions those of the others.
	RightAbstentions int `json:"right_abstentions"`
	WrongAbstentions int `json:"wrong_abstentions"`
	Failed           int `json:"failed"`
	Calls            int `json:"calls"`
	InputTokens      int `json:"input_tokens"`
	OutputTokens     int `json:"output_tokens"`
	// Difference is that of F1 to the baseline of the group, P of a paired permutation test; P is null for the baseline.
	Difference float64  `json:"difference"`
	P          *float64 `json:"p"`
}

// AskReport is what answers were worth.
type AskReport struct {
	Questions     int        `json:"questions"`
	Wanted        int        `json:"wanted"` // questions for which the corpus has an answer
	QuestionsHash string     `json:"questions_hash"`
	Arms          []AskedArm `json:"arms"`
	Replies       []Reply    `json:"-"` // by question, then by arm
}

// RunAsk has every question answered through every arm, and scores the answers by rules. A question that fails is counted and doesn't
// stop the run, unless ctx ends or a request can't be meant.
func RunAsk(ctx context.Context, cfg Config, asker Asker, questions []Question, arms []Arm) (*AskReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := settle(arms, cfg.Baseline); err != nil {
		return nil, err
	}
	report := &AskReport{Questions: len(questions), QuestionsHash: hashOf(questions)}
	for i := range questions {
		q := &questions[i]
		if !q.Unanswerable() {
			report.Wanted++
		}
		if cfg.Prepare != nil {
			if err := cfg.Prepare(ctx, q.Question); err != nil {
				return nil, fmt.Errorf("evaluate: question %s: %w", name(q, i), err)
			}
		}
		for _, arm := range arms {
			req := arm.Request
			req.Query = q.Question
			given, err := asker.Ask(ctx, req)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			reply := grade(q, given)
			reply.Group, reply.Arm = arm.Group, arm.Name
			if reply.Question = q.ID; q.ID == "" {
				reply.Question = fmt.Sprint(i + 1)
			}
			if err != nil {
				reply.Error, reply.Abstained = err.Error(), false
			}
			report.Replies = append(report.Replies, reply)
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(questions))
		}
	}
	report.sum(cfg, arms)
	return report, nil
}

// grade scores an answer by rules.
func grade(q *Question, given Given) Reply {
	r := Reply{
		Type: q.Type, Wanted: !q.Unanswerable(), Abstained: given.Abstained, Answer: given.Text,
		Calls: given.Calls, InputTokens: given.InputTokens, OutputTokens: given.OutputTokens,
	}
	if !r.Wanted {
		return r
	}
	exact, contains, f1 := 0.0, 0.0, 0.0
	got := plainWords(given.Text)
	for _, answer := range q.Answer {
		want := plainWords(answer)
		if given.Abstained || len(want) == 0 {
			continue
		}
		if slices.Equal(got, want) {
			exact = 1
		}
		if holds(got, want) {
			contains = 1
		}
		f1 = max(f1, overlap(got, want))
	}
	r.Exact, r.Contains, r.F1 = &exact, &contains, &f1
	return r
}

// plainWords are the words of a text in order, without articles: what answers are compared by (Rajpurkar et al., "SQuAD", 2016, do
// the same for English).
func plainWords(text string) []string {
	var words []string
	word.Each(text, func(w string) {
		if w != "a" && w != "an" && w != "the" {
			words = append(words, w)
		}
	})
	return words
}

// holds reports whether the words of one text stand in another, in a row.
func holds(text, part []string) bool {
	for i := 0; i+len(part) <= len(text); i++ {
		if slices.Equal(text[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// overlap is the harmonic mean of the shares that common words have in two texts, a word that stands twice counted twice.
func overlap(got, want []string) float64 {
	left := map[string]int{}
	for _, w := range want {
		left[w]++
	}
	common := 0
	for _, w := range got {
		if left[w] > 0 {
			left[w]--
			common++
		}
	}
	if common == 0 {
		return 0
	}
	return 2 * float64(common) / float64(len(got)+len(want))
}

// sum fills in the arms.
func (r *AskReport) sum(cfg Config, arms []Arm) {
	scores := make([][]float64, len(arms)) // F1 by arm and wanted question
	for a, arm := range arms {
		out := AskedArm{Name: arm.Name, Group: arm.Group}
		for i := a; i < len(r.Replies); i += len(arms) {
			reply := &r.Replies[i]
			out.Calls += reply.Calls
			out.InputTokens += reply.InputTokens
			out.OutputTokens += reply.OutputTokens
			switch {
			case reply.Error != "":
				out.Failed++
			case reply.Abstained && reply.Wanted:
				out.WrongAbstentions++
			case reply.Abstained:
				out.RightAbstentions++
			}
			if reply.Wanted {
				out.Exact += *reply.Exact / float64(r.Wanted)
				out.Contains += *reply.Contains / float64(r.Wanted)
				out.F1 += *reply.F1 / float64(r.Wanted)
				scores[a] = append(scores[a], *reply.F1)
			}
		}
		r.Arms = append(r.Arms, out)
	}
	for a := range r.Arms {
		base := slices.IndexFunc(r.Arms, func(b AskedArm) bool {
			return b.Group == r.Arms[a].Group && (cfg.Baseline == "" || b.Name == cfg.Baseline)
		})
		if base == a || r.Wanted == 0 {
			continue
		}
		differences := make([]float64, len(scores[a]))
		for i := range differences {
			differences[i] = scores[a][i] - scores[base][i]
		}
		p := Permutation(differences, cfg.Resamples, rand.NewPCG(cfg.Seed, 2))
		r.Arms[a].Difference, r.Arms[a].P = r.Arms[a].F1-r.Arms[base].F1, &p
	}
}

// WriteTable writes the report for people.
func (r *AskReport) WriteTable(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d questions, %d of them with an answer in the corpus; hash %s\n\n", r.Questions, r.Wanted, r.QuestionsHash)
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tarm\texact\tcontains\tF1\tabstained rightly\twrongly\tfailed\tcalls\ttokens in\tout\tdifference\tp")
	for _, a := range r.Arms {
		verdict := "\t"
		if a.P != nil {
			verdict = fmt.Sprintf("%+.3f\t%.4f", a.Difference, *a.P)
		}
		fmt.Fprintf(table, "%s\t%s\t%.3f\t%.3f\t%.3f\t%d of %d\t%d of %d\t%d\t%d\t%d\t%d\t%s\n", a.Group, a.Name, a.Exact, a.Contains, a.F1,
			a.RightAbstentions, r.Questions-r.Wanted, a.WrongAbstentions, r.Wanted, a.Failed, a.Calls, a.InputTokens, a.OutputTokens, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, out.String())
	return err
}
