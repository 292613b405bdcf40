package telemetry

// Kind says how a metric behaves.
type Kind string

// The kinds. A histogram is exported both ways: with the classic buckets of its row, and as a native one to servers
// that ask for those.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// The labels that metrics may have. Builds, tasks and nodes are never labels: their number has no bound.
const (
	LabelCorpus  = "corpus"
	LabelLevel   = "level" // of the summaries that are made, from 1
	LabelModel   = "model"
	LabelOutcome = "outcome" // of a fixed set of words, which differs by metric
	LabelRoute   = "route"   // the operation that a request was for, as the OpenAPI description names it
	LabelStatus  = "status"  // of HTTP, in digits
	LabelCause   = "cause"   // of a build's rest, as levels.Causes lists them; empty for one that was built
)

// Metric is one row of [Metrics].
type Metric struct {
	Name string
	Kind Kind
	// Unit is what one means, such as "seconds", "tokens" or "1" for a state that holds or doesn't.
	Unit string
	// Labels in the order in which their values are given.
	Labels []string
	// From names the programs that export it: "coordinator", "worker" or both.
	From string
	Help string
	// Outcomes are the values that LabelOutcome takes; empty when they are open-ended (causes of burials).
	Outcomes []string
	// Buckets are the upper bounds of a histogram's classic buckets.
	Buckets []float64
}

// Series returns the names under which a metric's values are found: a histogram has three.
func (m Metric) Series() []string {
	if m.Kind == Histogram {
		return []string{m.Name, m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
	}
	return []string{m.Name}
}

// Bounds of the classic buckets.
var (
	quick  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}             // calls to servers, queries
	slow   = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}               // models, tasks, clustering
	long   = []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400}      // builds
	tokens = []float64{50, 100, 250, 500, 1000, 1500, 2000, 2500, 3000, 3500, 5000, 10000, 20000} // a cluster
	few    = []float64{0, 1, 2, 5, 10, 20, 50, 100, 200}                                          // hits of a query
)

// of reports whether a program exports the metric.
func (m Metric) of(program string) bool {
	switch program {
	case coordinatorOnly, workerOnly:
		return m.From == both || m.From == program
	}
	return true
}
