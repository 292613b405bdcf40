package evaluate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Question is one line of a questions file.
type Question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	// Answer is what would be right; nil, null in the file, for a question that the corpus doesn't answer.
	Answer Answers `json:"answer"`
	// Type, if not empty, is reported on by itself.
	Type string `json:"type,omitempty"`
	// Evidence lists what an answer rests on: leaves, as ids or as DOCUMENT#CHUNK (chunks count from 0), or passages
	// of text.
	Evidence []string `json:"evidence,omitempty"`
}

// Answers are right answers, each as good as the others: in a file a text, or a list of texts.
type Answers []string

// MarshalJSON writes one answer as a text.
func (a Answers) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// UnmarshalJSON reads a text, a list of texts, or null.
func (a *Answers) UnmarshalJSON(raw []byte) error {
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		if *a = nil; string(raw) != "null" {
			*a = Answers{one}
		}
		return nil
	}
	var several []string
	if json.Unmarshal(raw, &several) != nil {
		return errors.New("answer must be a text, a list of texts of which each is right, or null where the corpus has none")
	}
	*a = several
	return nil
}

// Unanswerable reports whether the right answer is that the corpus has none.
func (q *Question) Unanswerable() bool { return q.Answer == nil }

// QuestionsError lists what is wrong in a file of questions.
type QuestionsError struct {
	// Rows has a sentence for each bad row, with the number of its line.
	Rows []string
}

// mostRows bounds how many bad rows an error tells of: a file of another kind is bad in every row.
const mostRows = 10

func (e *QuestionsError) Error() string {
	rows, rest := e.Rows, ""
	if n := len(rows) - mostRows; n > 0 {
		rows, rest = rows[:mostRows], fmt.Sprintf("; and %d more bad rows", n)
	}
	return "evaluate: questions: " + strings.Join(rows, "; ") + rest
}

// ReadQuestions reads one JSON object a line; blank lines are passed over and unknown fields ignored. Bad rows are left out and a
// *QuestionsError, which names the line of each, beside the questions of the others.
func ReadQuestions(r io.Reader) ([]Question, error) {
	var questions []Question
	var bad QuestionsError
	seen := map[string]int{}
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("evaluate: questions: %w", err)
		}
		last := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			q, err := parseQuestion(line)
			before, twice := seen[q.ID]
			switch {
			case err != nil:
				bad.Rows = append(bad.Rows, fmt.Sprintf("line %d: %v", number, err))
			case twice && q.ID != "":
				bad.Rows = append(bad.Rows, fmt.Sprintf("line %d: the id %q stands in line %d too", number, q.ID, before))
			default:
				seen[q.ID] = number
				questions = append(questions, q)
			}
		}
		if last {
			break
		}
	}
	if len(questions) == 0 && len(bad.Rows) == 0 {
		bad.Rows = []string{"there is none: one JSON object a line is wanted, with question and answer"}
	}
	if len(bad.Rows) > 0 {
		return questions, &bad
	}
	return questions, nil
}

func parseQuestion(line []byte) (Question, error) {
	q := Question{Answer: Answers{}} // null makes it nil
	if err := json.Unmarshal(line, &q); err != nil {
		return q, err
	}
	if strings.TrimSpace(q.Question) == "" {
		return q, errors.New("it has no question")
	}
	if q.Unanswerable() {
		if len(q.Evidence) > 0 {
			return q, errors.New("its answer is null, which says that the corpus has none, and yet it has evidence")
		}
		return q, nil
	}
	q.Answer = slices.DeleteFunc(q.Answer, func(text string) bool { return strings.TrimSpace(text) == "" })
	if len(q.Answer) == 0 && len(q.Evidence) == 0 {
		return q, errors.New("it has neither an answer nor evidence, so nothing could be scored; \"answer\": null says that the corpus has none")
	}
	return q, nil
}

// hashOf returns a hash of a value's JSON form, 32 hexadecimal digits.
func hashOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // questions and requests hold nothing that JSON lacks
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
