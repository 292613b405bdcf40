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
	"strings"
)

// Question is one line of a questions file.
type Question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Answer   string `json:"answer"`
	// Type, if not empty, is reported on by itself.
	Type string `json:"type,omitempty"`
	// Evidence lists what an answer rests on: leaves, as ids or as DOCUMENT#CHUNK (chunks count from 0), or passages
	// of text.
	Evidence []string `json:"evidence,omitempty"`
}

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

// ReadQuestions reads one JSON object a line; blank lines are passed over and unknown fields ignored. Bad rows are a
// *QuestionsError, which names the line of each: leaving them out would evaluate something else than the file says.
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
		return nil, &bad
	}
	return questions, nil
}

func parseQuestion(line []byte) (Question, error) {
	var q Question
	if err := json.Unmarshal(line, &q); err != nil {
		return q, err
	}
	if strings.TrimSpace(q.Question) == "" {
		return q, errors.New("it has no question")
	}
	if strings.TrimSpace(q.Answer) == "" && len(q.Evidence) == 0 {
		return q, errors.New("it has neither an answer nor evidence, so nothing could be scored")
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
