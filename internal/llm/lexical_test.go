package llm_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/llm"
)

func embed(t testing.TB, texts ...string) [][]float32 {
	t.Helper()
	v, err := llm.Lexical{}.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func cosine(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestLexicalVectorsAreUnitLength(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, text string, v []float32) {
		if n := cosine(v, v); len(v) != llm.LexicalWidth || math.Abs(n-1) > 1e-5 {
			t.Errorf("%q: width %d, squared length %v", text, len(v), n)
		}
	}
	texts := []string{
		"The quick brown fox", "x", "这是一个句子", "สวัสดีชาวโลก", "===", "   ", "", "the of and", "日本語のテキスト", "مرحبا بالعالم",
		"\xff\xfe", strings.Repeat("word ", 20_000), strings.Repeat("界", 60_000),
	}
	for i, v := range embed(t, texts...) {
		check(t, texts[i][:min(20, len(texts[i]))], v)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		v, err := llm.Lexical{}.EmbedQuery(t.Context(), text)
		if err != nil {
			rt.Fatal(err)
		}
		check(rt, text, v)
	})
}

// A vector is a function of its text: not of the batch, of the goroutine or of what was embedded before.
func TestLexicalIsDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(7))
	texts := []string{"alpha beta gamma", "这是一个句子", "delta", strings.Repeat("many different words here ", 500), "alpha"}
	var want [][]float32
	for _, text := range texts {
		want = append(want, embed(t, text)[0])
	}
	var wg sync.WaitGroup
	for range 7 {
		wg.Go(func() {
			if diff := gocmp.Diff(want, embed(t, texts...)); diff != "" {
				t.Error(diff)
			}
		})
	}
	wg.Wait()
}

func TestLexicalComparesFoldedText(t *testing.T) {
	for _, pair := range [][2]string{
		{"HELLO World", "hello world"},
		{"ＡＢＣ１２３", "abc123"},
		{"Straße", "STRASSE"},
		{"café", "cafe\u0301"},
		{"one, two; three", "three two one"}, // a bag of words
	} {
		v := embed(t, pair[0], pair[1])
		if c := cosine(v[0], v[1]); c < 0.9999 {
			t.Errorf("%q and %q have cosine %v", pair[0], pair[1], c)
		}
	}
}

func TestLexicalNearness(t *testing.T) {
	for _, tc := range []struct{ text, near, far string }{
		{"cancer treatment", "treatments of cancers", "budget committee"},
		{"generics and type inference", "inferring generic types", "the weather in spring"},
		{"the of and the to budget", "a budget", "the of and the to penguin"}, // function words say nothing
		{"所有权系统", "所有权是什么", "网络编程入门"},
		{"ภาษาไทยง่าย", "เรียนภาษาไทย", "ดนตรีสากล"},
		{"データベースの設計", "データベース設計入門", "料理のレシピ"},
		{"Krankenversicherung wechseln", "die Krankenversicherungen", "Fahrplan der Bahn"},
	} {
		v := embed(t, tc.text, tc.near, tc.far)
		if near, far := cosine(v[0], v[1]), cosine(v[0], v[2]); near < far+0.15 {
			t.Errorf("%q: %v to %q, %v to %q", tc.text, near, tc.near, far, tc.far)
		}
	}
}

type passageRow struct{ Leaf, Question string }

func medical(t testing.TB) []passageRow {
	t.Helper()
	f, err := os.Open("testdata/medical.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []passageRow
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r passageRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// Each question must find the passage that answers it among all of them. By chance one in sixty would be first.
func TestLexicalQuestionsFindTheirPassages(t *testing.T) {
	rows := medical(t)
	var leaves []string
	for _, r := range rows {
		leaves = append(leaves, r.Leaf)
	}
	vectors := embed(t, leaves...)
	asked, first, fifth := 0, 0, 0
	for i, r := range rows {
		if r.Question == "" {
			continue
		}
		asked++
		q, err := llm.Lexical{}.EmbedQuery(t.Context(), r.Question)
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int, len(rows))
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cosine(q, vectors[b]), cosine(q, vectors[a])) })
		switch rank := slices.Index(order, i); {
		case rank == 0:
			first++
			fallthrough
		case rank < 5:
			fifth++
		}
	}
	t.Logf("%d questions, %d passages: %d first, %d among five", asked, len(rows), first, fifth)
	if asked < 20 || first < asked*6/10 || fifth < asked*85/100 {
		t.Errorf("of %d questions, %d find their passage first and %d among five", asked, first, fifth)
	}
}

func BenchmarkLexical(b *testing.B) {
	rows := medical(b)
	var leaves []string
	for _, r := range rows {
		leaves = append(leaves, r.Leaf)
	}
	for b.Loop() {
		embed(b, leaves...)
	}
	b.ReportMetric(float64(b.N*len(leaves))/b.Elapsed().Seconds(), "passages/s")
}
