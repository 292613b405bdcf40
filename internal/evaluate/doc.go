// Package evaluate says what a way to retrieve is worth: it asks the same questions through several arms,
// scores what comes back, and tests which differences are more than chance.
//
// An [Arm] is a retrieve.Request with a name; [Run] asks every question through every arm and returns a
// [Report], which marshals to JSON and draws itself as a table and as a plot.
//
//	questions, err := evaluate.ReadQuestions(file)
//	arms := evaluate.Grid(evaluate.StandardArms("default"), 500, 2000)
//	report, err := evaluate.Run(ctx, evaluate.NewConfig(), retriever, questions, arms)
//	report.WriteTable(os.Stdout)
//	report.WritePlot(svg)
//
// # Metrics
//
//   - Answer coverage: the share of the content words of the answer, less those of the question, that the hits
//     hold. It needs no judge, and bounds what any reader of the hits could know of the answer.
//   - Answered: whether coverage reaches a threshold.
//   - Evidence recall: the share of the evidence that was found. Evidence that names leaves is found when the leaf
//     is a hit; a passage of text to the degree that the hits hold its content words.
//   - nDCG: for evidence that names leaves, how early they come. A summary counts by the share of its sources that
//     are evidence, and no leaf twice, so 1 is the most.
//   - Share of summaries among the hits, tokens, number of hits, latency.
//
// # Tests
//
// Questions pair the arms: each arm is compared with the baseline of its group question by question. Graded metrics
// are tested by flipping the signs of the differences ([Permutation]), with a bootstrap interval of the mean
// difference, and beside it by Wilcoxon's signed ranks; yes/no by McNemar's exact test. All p values of one metric and
// one type of question are corrected together by Holm's method, since among twenty arms one looks good by chance.
//
// The report holds the seed, the options, and hashes of questions, options and trees: the same inputs give
// the same report but for latencies.
package evaluate
