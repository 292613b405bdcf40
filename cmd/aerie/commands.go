package main

import "github.com/spf13/cobra"

// commands returns the commands in the order in which help lists them.
func (c *cli) commands() []*cobra.Command {
	return []*cobra.Command{
		c.demoCommand(),
		c.ingestCommand(),
		c.documentsCommand(),
		c.deleteCommand(),
		c.forgetCommand(),
		c.planCommand(),
		c.buildCommand(),
		c.queryCommand(),
		c.askCommand(),
		c.evalCommand(),
		c.treeCommand(),
		c.showCommand(),
		c.clusterCommand(),
		c.statusCommand(),
		c.serveCommand(),
		c.mcpCommand(),
		c.buildsCommand(),
		c.workersCommand(),
		c.deadCommand(),
		c.pauseCommand(),
		c.resumeCommand(),
		c.cancelCommand(),
		c.retryCommand(),
		c.rollbackCommand(),
		c.gcCommand(),
		c.repairCommand(),
		c.configCommand(),
		c.tokenCommand(),
		c.initCommand(),
		c.versionCommand(),
	}
}

// The sections that commands take flags from.
var (
	allKeys     = []string{""}
	placeKeys   = []string{"queue", "state", "store", "server"} // where things are kept
	queryKeys   = append([]string{"embeddings"}, placeKeys...)
	clusterKeys = []string{"clustering"}
)

// The keys that stand in the help of commands that build.
var buildShown = []string{
	"build.scope", "build.keep_leaves", "build.growth_threshold", "build.growth", "build.stale", "build.min_chunks", "build.max_depth", "build.slots",
	"build.max_attempts", "build.max_tokens", "build.max_cost",
}

// The keys that stand in the help of commands that cluster.
var clusterShown = []string{
	"clustering.mode", "clustering.seed", "clustering.threshold", "clustering.reduced_dimensionality",
	"clustering.max_cluster_tokens", "clustering.target_cluster_size", "clustering.max_clusters", "clustering.memory_limit",
}
