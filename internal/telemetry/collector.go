package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// readMetrics are those that are read from the stores now and then, and statsMetrics those that are read from the
// counts of package llm and from limiters when Prometheus asks. Series of what is gone vanish with it.
var (
	readMetrics = setOf(
		CorpusLeaves, CorpusSummaries, CorpusGeneration, CorpusGrowth, CorpusGrowthThreshold, CorpusUnseen, CorpusReadTimestamp,
		BuildRunning, BuildProgressTimestamp, BuildStartTimestamp, BuildCalls, BuildReused, BuildInputTokens, BuildOutputTokens,
		BuildCost, BuildBudget,
		LevelExpected, LevelDone, LevelQueued, LevelRunning, LevelBuried, LevelOldest, LevelLargest, LevelMade, LevelCarried, LevelKept,
	)
	statsMetrics = setOf(
		InputTokens, OutputTokens, ReusedAnswers, RefusedAnswers, ThrottledCalls, LimitWait, CallsUnderWay, CallsWaiting, ConcurrencyLimit,
	)
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// send passes a value of a metric on, with the values of its labels in the table's order.
type send func(name string, value float64, labels ...string)

// collector exports values that are kept elsewhere.
type collector struct {
	descs []*prometheus.Desc
	rows  map[string]row
	fill  func(send)
}

type row struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (c *collector) add(m Metric) {
	r := row{desc: prometheus.NewDesc(m.Name, m.Help, m.Labels, nil), kind: prometheus.GaugeValue}
	if m.Kind == Counter {
		r.kind = prometheus.CounterValue
	}
	if c.rows == nil {
		c.rows = map[string]row{}
	}
	c.rows[m.Name] = r
	c.descs = append(c.descs, r.desc)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	c.fill(func(name string, value float64, labels ...string) {
		if r, ok := c.rows[name]; ok {
			to <- prometheus.MustNewConstMetric(r.desc, r.kind, value, labels...)
		}
	})
}
