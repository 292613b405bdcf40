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

// ReadQuestions reads one JSON object a line; blank lines are passed over and unknown fields ignored. An error
// names the line.
func ReadQuestions(r io.Reader) ([]Question, error) {
	var questions []Question
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
			if err != nil {
				return nil, fmt.Errorf("evaluate: questions: line %d: %w", number, err)
			}
			if before, twice := seen[q.ID]; twice && q.ID != "" {
				return nil, fmt.Errorf("evaluate: questions: line %d: the id %q stands in line %d too", number, q.ID, before)
			}
			seen[q.ID] = number
			questions = append(questions, q)
		}
		if last {
			break
		}
	}
	if len(questions) == 0 {
		return nil, errors.New("evaluate: questions: there is none: one JSON object a line is wanted, with question and answer")
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
