package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
)

// mostInputs is how many texts one request may hold, as OpenAI's has it.
const mostInputs = 2048

type embeddingsRequest struct {
	Model          string `json:"model"`
	Input          inputs `json:"input"`
	EncodingFormat string `json:"encoding_format"`
	Dimensions     int    `json:"dimensions"`
}

// inputs is a text or a list of texts. Lists of token numbers are those of a tokenizer that isn't known here.
type inputs []string

func (in *inputs) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*in = inputs{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return &wrong{"input", "input must be a text or a list of texts; token numbers are those of another tokenizer (langchain-openai: check_embedding_ctx_length=False)"}
	}
	*in = many
	return nil
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or their bytes in base64
}

func (h *handler) embeddings(w http.ResponseWriter, r *http.Request) {
	var req embeddingsRequest
	if err := h.read(w, r, &req); err != nil {
		h.fail(w, r, err)
		return
	}
	corpus, err := h.corpus(r.Context(), req.Model)
	if err == nil {
		err = req.check()
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	vectors, embedder, err := h.service.Embed(r.Context(), corpus, req.Input)
	if err == nil && req.Dimensions > 0 && len(vectors) > 0 && len(vectors[0]) != req.Dimensions {
		err = &wrong{"dimensions", fmt.Sprintf("dimensions is %d, and the vectors of %s have %d: leave it out", req.Dimensions, embedder, len(vectors[0]))}
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	data := make([]embedding, len(vectors))
	for i, v := range vectors {
		data[i] = embedding{Object: "embedding", Index: i, Embedding: v}
		if req.EncodingFormat == "base64" {
			data[i].Embedding = bytesOf(v)
		}
	}
	// Tokens are those of the embedder, which tells nobody.
	h.write(w, map[string]any{"object": "list", "data": data, "model": req.Model, "usage": usage{}})
}

func (req *embeddingsRequest) check() error {
	switch {
	case len(req.Input) == 0:
		return &wrong{"input", "input is missing: a text, or a list of texts"}
	case len(req.Input) > mostInputs:
		return &wrong{"input", fmt.Sprintf("input has %d texts; at most %d are taken at once", len(req.Input), mostInputs)}
	case req.EncodingFormat != "" && req.EncodingFormat != "float" && req.EncodingFormat != "base64":
		return &wrong{"encoding_format", fmt.Sprintf("encoding_format is %q; it must be float or base64", req.EncodingFormat)}
	}
	for i, text := range req.Input {
		if text == "" {
			return &wrong{"input", fmt.Sprintf("text %d of input is empty", i)}
		}
	}
	return nil
}

// bytesOf are the numbers of a vector in little-endian order, in base64.
func bytesOf(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
