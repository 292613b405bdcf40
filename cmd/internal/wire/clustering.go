package wire

import (
	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/config"
)

// ClusteringConfig is what the configuration says about clustering. Without a limit it may plan with the memory that is
// available now.
func ClusteringConfig(cfg *config.Config) clustering.Config {
	limit := int64(cfg.Clustering.MemoryLimit)
	if limit == 0 {
		limit = AvailableMemory()
	}
	return clustering.Config{
		Mode: clustering.Mode(cfg.Clustering.Mode), Seed: cfg.Clustering.Seed, Threshold: cfg.Clustering.Threshold,
		Dim: cfg.Clustering.ReducedDimensionality, MaxClusterTokens: cfg.Clustering.MaxClusterTokens,
		TargetClusterSize: cfg.Clustering.TargetClusterSize, MaxClusters: cfg.Clustering.MaxClusters, MemoryBytes: limit,
	}
}
