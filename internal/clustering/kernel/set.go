package kernel

// Set is one implementation of the loops, such as AVX2. All sets give the same bits.
type Set struct {
	Name string
	// MR and NR are the rows and columns of a float32 tile: panels of a have MR rows, panels of b NR.
	MR, NR int
	// tile computes the MR x NR block c, with ldc floats between its rows, of the panels a (k x MR) and b (k x NR).
	tile func(k int, a, b, c *float32, ldc int)
	// tile64 is the same in float64 with fixed 6 x 8 tiles.
	tile64 func(k int, a, b, c *float64, ldc int)
	screen func(rows int, c *float32, ldc int, rowLimit, colLimit *float32, out *uint64) int
	axpy   func(n int, alpha float64, x, y *float64)
	// products computes n dot products with x, of the rows that lie one after the other.
	products func(n, dim int, dst, rows, x *float32)
	layoutLoops
}

// The shape of float64 tiles.
const (
	MR64 = 6
	NR64 = 8
)

// Machine says what to compute with.
type Machine struct {
	*Set
	// Workers is the number of goroutines of a parallel loop, at least 1. It never changes a result.
	Workers int
}

// One returns the machine with a single worker, for loops inside a parallel one.
func (m Machine) One() Machine { return Machine{Set: m.Set, Workers: 1} }

// Tile computes one tile of a float32 product: c, MR x NR with ldc floats between rows, from a packed panel a of MR
// rows and a packed panel b of NR rows, both k deep. It panics when a slice is too short.
func (s *Set) Tile(k int, a, b, c []float32, ldc int) {
	if len(a) < k*s.MR || len(b) < k*s.NR || len(c) < (s.MR-1)*ldc+s.NR || ldc < s.NR {
		panic("kernel: tile: slice too short")
	}
	if k == 0 {
		for i := range s.MR {
			clear(c[i*ldc : i*ldc+s.NR])
		}
		return
	}
	s.tile(k, &a[0], &b[0], &c[0], ldc)
}

// Strip computes c = a · bᵀ for the packed panels a (panels x k x MR) and one packed panel b (k x NR); c is
// panels·MR x NR, row-major without gaps.
func (s *Set) Strip(panels, k int, a, b, c []float32) {
	for p := range panels {
		s.Tile(k, a[p*k*s.MR:], b, c[p*s.MR*s.NR:], s.NR)
	}
}

// Tile64 computes one 6 x 8 tile of a float64 product, like [Set.Tile].
func (s *Set) Tile64(k int, a, b, c []float64, ldc int) {
	if k < 1 || len(a) < k*MR64 || len(b) < k*NR64 || len(c) < (MR64-1)*ldc+NR64 || ldc < NR64 {
		panic("kernel: tile64: slice too short")
	}
	s.tile64(k, &a[0], &b[0], &c[0], ldc)
}

// Screen looks for distances within reach in a block of similarities c, rows x 16 with ldc floats between rows. The
// distance of c[i][j] is 1 - c[i][j]; it is within reach of row i when at most rowLimit[i], of column j when at most
// colLimit[j] (16 long). For each row with any, ascending, out gets i<<32 | columns<<16 | rows: the bit j of rows is
// set when (i, j) is within reach of row i, that of columns when within reach of column j. It returns their number;
// out must have room for one entry a row.
func (s *Set) Screen(rows int, c []float32, ldc int, rowLimit, colLimit []float32, out []uint64) int {
	if rows == 0 {
		return 0
	}
	if len(c) < (rows-1)*ldc+16 || len(rowLimit) < rows || len(colLimit) < 16 || len(out) < rows {
		panic("kernel: screen: slice too short")
	}
	return s.screen(rows, &c[0], ldc, &rowLimit[0], &colLimit[0], &out[0])
}

// Axpy adds alpha·x to y, element by element with one rounding each: y[i] = fma(alpha, x[i], y[i]). len(x) must be
// len(y) and a multiple of 4.
func (s *Set) Axpy(alpha float64, x, y []float64) {
	if len(x) != len(y) || len(x)%4 != 0 {
		panic("kernel: axpy: bad lengths")
	}
	if len(x) > 0 {
		s.axpy(len(x), alpha, &x[0], &y[0])
	}
}
