// Package config holds every setting of aerie: what aerie.yaml may say, its defaults, and what is refused.
//
// [Load] takes each key from the first of four places that names it: a flag, the environment, the file, the
// default. A key is a path such as "clustering.max_cluster_tokens"; its environment variable is
// AERIE_CLUSTERING_MAX_CLUSTER_TOKENS, and the programs make flags of it. Keys are found by reflection over
// [Config], so that a field added there is at once a key, a variable, a flag and a line of `aerie config show`.
//
// Nothing is guessed: an unknown key, variable or value is an *[Error], one sentence that names the key, what it
// was set to and where, and what would be right. Secrets never appear in one, nor in [Settings].
package config
