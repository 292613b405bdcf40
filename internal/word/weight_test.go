package word_test

import (
	"testing"

	"github.com/aerie-rag/aerie/internal/word"
)

func TestWeight(t *testing.T) {
	for _, pair := range [][2]string{{"the", "heron"}, {"Which", "heron"}, {"und", "Reiher"}, {"...", "the"}, {"ox", "heron"}, {"the", "the heron"}} {
		if light, heavy := word.Weight(pair[0]), word.Weight(pair[1]); !(light < heavy) {
			t.Errorf("%q weighs %v, not less than %q with %v", pair[0], light, pair[1], heavy)
		}
	}
	if w := word.Weight("the"); w <= 0 || w > 0.1 {
		t.Errorf("a function word weighs %v", w)
	}
	if w := word.Weight("苍鹭"); w <= 0 {
		t.Errorf("a pair of ideographs weighs %v", w)
	}
}
