// Package golden reads the golden values in ../testdata for the tests of the clustering packages, and holds the product that
// their loops are compared with.
package golden

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// dir is testdata as seen from a package below internal/clustering.
const dir = "../testdata"

// Load reads the elements of a NumPy array in dir whose element type is T.
func Load[T int32 | float32 | float64](t testing.TB, name string) []T {
	t.Helper()
	return LoadFrom[T](t, filepath.Join(dir, name))
}

// LoadFrom is Load for any path.
func LoadFrom[T int32 | float32 | float64](t testing.TB, path string) []T {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Version 1: magic, two bytes of version, two bytes of the header's length, the header.
	b = b[10+int(binary.LittleEndian.Uint16(b[8:])):]
	var zero T
	out := make([]T, len(b)/binary.Size(zero))
	if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Values is golden.json.
type Values struct {
	AB []struct {
		Spread  float64 `json:"spread"`
		MinDist float64 `json:"min_dist"`
		A       float64 `json:"a"`
		B       float64 `json:"b"`
	} `json:"ab"`
	GMM struct {
		Steps []float64 `json:"mean_log_likelihood_by_step"`
		BIC   float64   `json:"bic_after_30_steps"`
	} `json:"gmm"`
	Curve struct {
		Points []struct {
			K   int     `json:"k"`
			BIC float64 `json:"bic"`
		} `json:"curve"`
		Argmin int `json:"argmin"`
	} `json:"bic_curve"`
}

// Read reads golden.json.
func Read(t testing.TB) Values {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v Values
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Dot returns the product of two rows as every tile of package kernel defines it: one chain of fused multiply-adds in order.
func Dot(x, y []float32) float32 {
	var sum float32
	for t, v := range x {
		sum = fma32(v, y[t], sum)
	}
	return sum
}

// fma32 returns a*b + c rounded once. The sum in float64 rounds again only where it lies half way between two float32.
func fma32(a, b, c float32) float32 {
	s := math.FMA(float64(a), float64(b), float64(c))
	if math.Float64bits(s)&(1<<29-1) != 1<<28 {
		return float32(s)
	}
	product := new(big.Float).SetPrec(48).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
	exact, _ := new(big.Float).SetPrec(600).Add(product, big.NewFloat(float64(c))).Float32()
	return exact
}
