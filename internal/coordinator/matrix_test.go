package coordinator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMatrix: a matrix on the heap and one in a mapped file hold the same rows.
func TestMatrix(t *testing.T) {
	const d = 3
	for _, n := range []int{10, mappedFrom/4/d + 1} {
		m, err := newMatrix(n, d, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if (m.file != nil) != (4*n*d >= mappedFrom) {
			t.Errorf("%d rows: in a file %t", n, m.file != nil)
		}
		for i := range 10 { // fewer than announced
			if err := m.add([]float32{float32(i), 1, 2}); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.seal(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{4, 1, 2, 5, 1, 2}, m.rows(4, 6)); diff != "" {
			t.Errorf("%d rows:\n%s", n, diff)
		}
		m.close()
	}
}
