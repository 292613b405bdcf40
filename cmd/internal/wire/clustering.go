package wire

import (
	"fmt"

	"github.com/aerie-rag/aerie/internal/clustering"
	"github.com/aerie-rag/aerie/internal/config"
	"github.com/aerie-rag/aerie/internal/coordinator"
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

// promptRoom is what of a window an alternative leaves to the prompt beside the passages, in tokens.
const promptRoom = 600

// alternatives are the ways to cluster with fewer calls that a plan prices: one stage instead of two, and as large as the window allows.
func alternatives(cfg *config.Config, now clustering.Config) []coordinator.Alternative {
	var all []coordinator.Alternative
	if now.Mode != clustering.Flat {
		flat := now
		flat.Mode = clustering.Flat
		all = append(all, coordinator.Alternative{Settings: "clustering.mode flat", Clustering: flat})
	}
	room := (cfg.Summaries.ContextTokens - cfg.Summaries.MaxOutputTokens - promptRoom) / 500 * 500
	if room > now.MaxClusterTokens {
		large := now
		large.MaxClusterTokens, large.MaxClusters = room, 2 // which yields to the cap
		all = append(all, coordinator.Alternative{
			Settings: fmt.Sprintf("clustering.max_cluster_tokens %d and max_clusters 2, which yields to it", room), Clustering: large,
		})
	}
	return all
}
