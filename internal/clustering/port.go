package clustering

import "context"

// Mode names a way to cluster a level.
type Mode string

// The modes.
const (
	Raptor    Mode = "raptor"    // two stages of UMAP and a soft mixture, k by BIC for small levels and by the token cap for large ones
	Reference Mode = "reference" // the paper's code: sqrt(n) neighbors, k by BIC over 1..49 on both stages
	Flat      Mode = "flat"      // one stage of UMAP and a soft mixture, k >= ceil(n / target)
	KMeans    Mode = "kmeans"    // k = ceil(n / size), 50 iterations, seeded
)

// Config says how to cluster. The zero value of a field is not its default; see [DefaultConfig].
type Config struct {
	Mode Mode
	// Seed decides every random choice. The same seed gives the same clusters on any number of cores.
	Seed uint64
	// Threshold is the posterior above which a row joins a component beside its best, in (0, 1).
	Threshold float64
	// Dim is the number of dimensions of the projection, at least 1; min(Dim, n-2) are used.
	Dim int
	// MaxClusterTokens is the hard cap on the tokens of one cluster, at least 1. A single row over the cap is
	// a cluster by itself.
	MaxClusterTokens int
	// TargetClusterSize t > 0 makes at least ceil(n/t) clusters, t >= 2; 0 means from the token cap (flat: 100, kmeans: 5).
	TargetClusterSize int
	// MaxClusters m >= 2 bounds the number of clusters, but yields to the two above; 0 means no bound.
	MaxClusters int
	// MemoryBytes is the most memory to use beside the input; more is refused with a *MemoryError before the
	// start. 0 means no limit.
	MemoryBytes int64
	// Progress, if not nil, is told of each stage; it must be fast and may be called from any goroutine.
	Progress func(stage string, done, total int)
}

// DefaultConfig returns the defaults of aerie.yaml.
func DefaultConfig() Config {
	return Config{Mode: Raptor, Seed: 224, Threshold: 0.1, Dim: 10, MaxClusterTokens: 3500}
}

// Input is one level's vectors: X is row-major n x d, only read, and may be a mapped file. Rows need not be unit
// length. Tokens has one count for each row.
type Input struct {
	X      []float32
	N, D   int
	Tokens []int
}

// Result is one level's clusters.
type Result struct {
	// Clusters holds ascending rows, ordered by first row, then lexically; no two are equal. Every row is in at
	// least one. Empty when the level should not be built.
	Clusters [][]int
	// Stopped says why there are no clusters, such as "would not shrink"; empty otherwise.
	Stopped string
	// Recall is the share of the true nearest neighbors that KNN holds, measured on a sample where it isn't exact.
	Recall float64
	// Stages lists what took how long, in order.
	Stages []Stage
	// KNN, Layout and Global are the outcome of the global stage, for checks and plots; nil when there was none.
	KNN    *KNN
	Layout []float32 // n x LayoutDim
	// LayoutDim is the width of Layout.
	LayoutDim int
	Global    []int32 // each row's best global component
}

// Stage is one timed step.
type Stage struct {
	Name    string
	Seconds float64
}

// KNN holds each row's nearest neighbors by cosine distance, n x K, ascending by (distance, index), the row itself
// left out. Index is -1 where a row has fewer than K.
type KNN struct {
	K        int
	Index    []int32
	Distance []float32
}

// Func is the signature of [Cluster], for callers that want another in tests.
type Func func(ctx context.Context, cfg Config, in Input) (Result, error)
