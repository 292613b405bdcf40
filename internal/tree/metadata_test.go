package tree_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aerie-rag/aerie/internal/tree"
)

// TestC9ExactNumbers: what is written comes back, digit by digit, and what no 64 bits hold is refused.
func TestC9ExactNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"0": 0.0, "-3": -3.0, "9007199254740991": 9007199254740991.0, "9007199254740992": int64(1 << 53), "9007199254740993": int64(1<<53 + 1),
		"1746714878034235396": int64(1746714878034235396), "-9223372036854775808": int64(math.MinInt64), "9223372036854775807": int64(math.MaxInt64),
		"1.5": 1.5, "1e18": int64(1e18), "1e300": 1e300, "2.0": 2.0,
	} {
		if got, err := tree.Number(text); err != nil || got != want {
			t.Errorf("Number(%s) = %v (%T), %v; want %v", text, got, got, err, want)
		}
	}
	for _, text := range []string{"9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "1e999"} {
		if got, err := tree.Number(text); err == nil {
			t.Errorf("Number(%s) = %v, and no error", text, got)
		}
	}
	want := tree.Metadata{
		"big": int64(1746714878034235397), "small": 7.0, "list": []int64{1746714878034235397, 2}, "numbers": []float64{1, 2.5}, "texts": []string{"1"}, "flags": []bool{true},
		"huge": 1e19, "none": []string{},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got tree.Metadata
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("through %s (-want +got):\n%s", data, diff)
	}
	if _, err := tree.List([]any{1.5, int64(1 << 60)}); err == nil {
		t.Error("a list took a fraction beside a number that no float64 holds")
	}
}

// TestC9Comparison: numbers are ordered as big numbers are, whatever they are kept as.
func TestC9Comparison(t *testing.T) {
	number := rapid.OneOf(rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.Int64Range(1<<53-2, 1<<53+2).AsAny(),
		rapid.SampledFrom([]any{9.223372036854775807e18, -9.223372036854775808e18, int64(math.MaxInt64), 0.5}))
	exact := func(v any) *big.Float {
		if n, ok := v.(int64); ok {
			return new(big.Float).SetPrec(2000).SetInt64(n)
		}
		return new(big.Float).SetPrec(2000).SetFloat64(v.(float64))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		got, ok := tree.CompareValues(a, b)
		if want := exact(a).Cmp(exact(b)); !ok || got != want {
			t.Fatalf("%v against %v: %d, %t; want %d", a, b, got, ok, want)
		}
	})
	if _, ok := tree.CompareValues("1", 1.0); ok {
		t.Error("a text was compared with a number")
	}
}
