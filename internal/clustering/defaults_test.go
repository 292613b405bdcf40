package clustering

// DefaultConfig returns the defaults of aerie.yaml.
func DefaultConfig() Config {
	return Config{Mode: Raptor, Seed: 224, Threshold: 0.1, Dim: 10, MaxClusterTokens: 3500}
}
