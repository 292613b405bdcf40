package llm_test

import (
	"math"
	"testing"

	"github.com/aerie-rag/aerie/internal/llm"
)

func TestLexicalVectorsAreUnitLength(t *testing.T) {
	texts := []string{"The quick brown fox", "x", "这是一个句子", "สวัสดีชาวโลก", "===", "   ", "", "the of and", "日本語のテキスト", "مرحبا بالعالم"}
	vectors, err := llm.Lexical{}.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		var n float64
		for _, x := range v {
			n += float64(x) * float64(x)
		}
		if len(v) != llm.LexicalWidth || math.Abs(n-1) > 1e-5 {
			t.Errorf("%q: width %d, squared length %v", texts[i], len(v), n)
		}
	}
}
