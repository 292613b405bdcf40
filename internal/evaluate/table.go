package evaluate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for people: one block for each group, a row for each arm with its means over all
// questions and the test of its coverage against the baseline; then coverage by type of question.
func (r *Report) WriteTable(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d questions, hash %s; options %s; seed %d\n", r.Questions, r.QuestionsHash, r.OptionsHash, r.Config.Seed)
	for _, t := range r.Trees {
		fmt.Fprintf(&out, "corpus %s, generation %d", t.Corpus, t.Generation)
		if t.Hash != "" {
			fmt.Fprintf(&out, ", hash %s", t.Hash)
		}
		out.WriteByte('\n')
	}
	for _, group := range r.groups() {
		out.WriteByte('\n')
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "%s\tcoverage\tanswered\trecall\tnDCG\tsummaries\ttokens\tp50 ms\tp95 ms\tdifference\twins-losses\tp\tp Holm\n", group)
		for _, a := range r.Arms {
			if a.Group != group {
				continue
			}
			s := &a.All
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.1f\t%.1f\t%s\n", a.Name, mean(s.Coverage), mean(s.Answered),
				mean(s.Recall), mean(s.NDCG), number(s.Summaries), s.Tokens, s.P50MS, s.P95MS, r.verdict(&a))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if len(r.Types) > 0 {
		fmt.Fprintf(&out, "\n")
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(table, "coverage by type\t\t%s\n", strings.Join(r.Types, "\t"))
		for _, a := range r.Arms {
			fmt.Fprintf(table, "%s\t%s", a.Group, a.Name)
			for i := range a.Types {
				fmt.Fprintf(table, "\t%s", mean(a.Types[i].Coverage))
			}
			fmt.Fprintln(table)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// groups returns the groups in the order of their first arms.
func (r *Report) groups() []string {
	var out []string
	for _, a := range r.Arms {
		if !slices.Contains(out, a.Group) {
			out = append(out, a.Group)
		}
	}
	return out
}

// verdict is what the test of an arm's coverage says, or of its evidence recall where no question has an answer.
func (r *Report) verdict(a *ArmReport) string {
	if a.Baseline {
		return "baseline\t\t\t"
	}
	for _, metric := range []Metric{Coverage, Recall} {
		for _, c := range r.Comparisons {
			if c.Group == a.Group && c.Arm == a.Name && c.Type == "" && c.Metric == metric {
				return fmt.Sprintf("%+.4f (%+.4f to %+.4f)\t%d-%d\t%s\t%s", c.Difference, c.Low, c.High, c.Wins, c.Losses, chance(c.P), chance(c.Holm))
			}
		}
	}
	return "\t\t\t"
}

func mean(e *Estimate) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", e.Mean)
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

// chance writes a p value.
func chance(p float64) string {
	if p < 0.0001 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
