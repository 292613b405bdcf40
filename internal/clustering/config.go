package clustering

import (
	"fmt"
	"math"
)

// Validate reports the first setting that can't be used, in one sentence with the key of aerie.yaml, the value and what
// is allowed.
func (c Config) Validate() error {
	refuse := func(key string, value any, allowed string) error {
		return fmt.Errorf("clustering: clustering.%s is %v; it must be %s", key, value, allowed)
	}
	switch c.Mode {
	case Raptor, Reference, Flat, KMeans:
	default:
		return refuse("mode", fmt.Sprintf("%q", c.Mode), "raptor, reference, flat or kmeans")
	}
	switch {
	case math.IsNaN(c.Threshold) || c.Threshold <= 0 || c.Threshold >= 1:
		return refuse("threshold", c.Threshold, "above 0 and below 1")
	case c.Dim < 1:
		return refuse("reduced_dimensionality", c.Dim, "at least 1")
	case c.MaxClusterTokens < 1:
		return refuse("max_cluster_tokens", c.MaxClusterTokens, "at least 1")
	case c.TargetClusterSize < 0 || c.TargetClusterSize == 1:
		return refuse("target_cluster_size", c.TargetClusterSize, "0 (from the token cap) or at least 2")
	case c.MaxClusters < 0 || c.MaxClusters == 1:
		return refuse("max_clusters", c.MaxClusters, "0 (no bound) or at least 2")
	case c.MemoryBytes < 0:
		return refuse("memory_bytes", c.MemoryBytes, "0 (no limit) or above")
	}
	return nil
}

// target returns the cluster size that sets the least number of clusters, 0 for none.
func (c Config) target() int {
	switch {
	case c.TargetClusterSize > 0:
		return c.TargetClusterSize
	case c.Mode == Flat:
		return 100
	case c.Mode == KMeans:
		return 5
	}
	return 0
}

// least returns how many clusters n rows must have at least.
func (c Config) least(n int) int {
	if t := c.target(); t > 0 {
		return max(2, quotient(n, t))
	}
	return 2
}

// quotient returns a / b rounded up, for a of at least 0, without overflow.
func quotient(a, b int) int {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// shrinks reports whether clusters are few enough for a level of n rows: at most 0.7 n.
func shrinks(clusters, n int) bool { return 10*clusters <= 7*n }

// RowError says what is wrong with one row of the input.
type RowError struct {
	Row   int    // which
	Fault string // such as "all zero"
}

func (e *RowError) Error() string { return fmt.Sprintf("clustering: row %d is %s", e.Row, e.Fault) }

// MemoryError says that a run would need more memory than it may use.
type MemoryError struct {
	Rows, Dim   int
	Need, Limit int64 // bytes
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("clustering: %d rows of %d numbers need about %d MiB beside the vectors, and the limit is %d MiB",
		e.Rows, e.Dim, mebibytes(e.Need), mebibytes(e.Limit))
}

func mebibytes(b int64) int64 { return (b + 1<<20 - 1) >> 20 }
