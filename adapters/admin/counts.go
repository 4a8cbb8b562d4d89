package admin

import "github.com/prometheus/client_golang/prometheus"

// Counts are a front-end's own figures, under one name with one label: counters
// that only grow, or with Gauge what there is now. The label's values must not
// be the clients' words.
type Counts struct {
	Name, Help, Label string
	Gauge             bool
	// Read may be called from any goroutine.
	Read func() map[string]uint64
}

// Describe implements prometheus.Collector.
func (c Counts) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc() }

// Collect implements prometheus.Collector.
func (c Counts) Collect(ch chan<- prometheus.Metric) {
	kind := prometheus.CounterValue
	if c.Gauge {
		kind = prometheus.GaugeValue
	}
	for value, n := range c.Read() {
		ch <- prometheus.MustNewConstMetric(c.desc(), kind, float64(n), value)
	}
}

func (c Counts) desc() *prometheus.Desc {
	return prometheus.NewDesc("entrepot_"+c.Name, c.Help, []string{c.Label}, nil)
}
