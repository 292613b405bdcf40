package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// row is one vector of a reply.
type row struct {
	index  int
	vector []float32
}

// parse reads a reply of /embeddings. NaN and null in place of numbers, which some servers send, make it unreadable,
// and an error that trying again may cure.
func (e *Embeddings) parse(raw []byte) (rows []row, tokens int, err error) {
	var reply struct {
		Error json.RawMessage `json:"error"`
		Data  []struct {
			Index     json.RawMessage `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage usage `json:"usage"`
	}
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\ufeff"))
	if err := json.Unmarshal(raw, &reply); err != nil {
		if isErrorText(string(raw)) {
			return nil, 0, e.to.refused(statusIn(string(raw)), nil, raw)
		}
		if bytes.Contains(raw, []byte("NaN")) || bytes.Contains(raw, []byte("Infinity")) {
			return nil, 0, &Error{Kind: BadAnswer, Reason: BadVectors, Endpoint: e.to.name, Message: "a vector holds a number that isn't finite"}
		}
		return nil, 0, e.to.notJSON(raw, "the reply isn't JSON")
	}
	if reply.Data == nil || present(reply.Error) {
		return nil, 0, e.to.refused(200, nil, raw)
	}
	rows = make([]row, len(reply.Data))
	for i, d := range reply.Data {
		rows[i].index = i // some servers leave it out
		if present(d.Index) || string(d.Index) == "0" {
			if rows[i].index, err = strconv.Atoi(scalar(d.Index)); err != nil {
				rows[i].index = -1 // no order of theirs, so that in which they came
			}
		}
		if rows[i].vector, err = parseVector(d.Embedding); err != nil {
			return nil, 0, &Error{Kind: BadAnswer, Reason: BadVectors, Endpoint: e.to.name, Message: fmt.Sprintf("the vector of text %d of %d %v", i+1, len(rows), err)}
		}
	}
	return rows, max(reply.Usage.prompt, reply.Usage.total), nil
}

// parseVector reads a JSON list of numbers, or a string that holds little-endian float32 in base64, which some servers
// send whatever they are asked for. raw is valid JSON.
func parseVector(raw json.RawMessage) ([]float32, error) {
	s := strings.TrimSpace(string(raw))
	if strings.HasPrefix(s, `"`) {
		return parseBase64(raw)
	}
	s, ok := strings.CutPrefix(s, "[")
	s, closed := strings.CutSuffix(s, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("is no list of numbers")
	}
	if strings.HasPrefix(strings.TrimSpace(s), "[") {
		return nil, fmt.Errorf("is a list of lists: the model gives a vector for each token, and one for the text is needed")
	}
	v := make([]float32, 0, strings.Count(s, ",")+1)
	for s != "" {
		var number string
		number, s, _ = strings.Cut(s, ",")
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 32)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, fmt.Errorf("holds %s, which isn't a finite number", oneLine(number))
		}
		v = append(v, float32(x))
	}
	return v, nil
}

func parseBase64(raw json.RawMessage) ([]float32, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b)%4 != 0 {
		return nil, fmt.Errorf("is a string, but not base64 of 32-bit numbers")
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}
