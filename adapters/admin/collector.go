package admin

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"entrepot/core"
)

// collector takes one snapshot of every broker for each scrape. Its labels are
// protocol, reason and state, whose values are the broker's own words; realms
// are summed.
type collector struct {
	realms  *core.Realms
	refused func() map[string]map[string]uint64
	build   prometheus.Metric

	connections, connected            *prometheus.Desc
	turnedAway, limited               *prometheus.Desc
	loginsRefused                     *prometheus.Desc
	in, inBytes, out, outBytes        *prometheus.Desc
	dropped, unroutable               *prometheus.Desc
	sessions, retained, retainedBytes *prometheus.Desc
	exchanges, queues, bindings       *prometheus.Desc
	consumers, queued, queuedBytes    *prometheus.Desc
	alarm, alarmMark                  *prometheus.Desc
	diskFree, memoryUsed              *prometheus.Desc
}

func newCollector(realms *core.Realms, refused func() map[string]map[string]uint64) *collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("entrepot_"+name, help, labels, nil)
	}
	return &collector{
		realms: realms, refused: refused, build: buildInfo(),

		connections: d("connections", "Client connections that are open.", "protocol"),
		connected:   d("connections_total", "Client connections that logged in.", "protocol"),
		limited:     d("limited_total", "How often a client or user came to a limit of its own: it was refused, or had to wait.", "limit"),
		turnedAway:  d("connections_refused_total", "Connections that a limit turned away, by the limit's setting.", "protocol", "limit"),
		loginsRefused: d("logins_refused_total", "Log-ins that were refused: who it was not proved, or may not come in there.",
			"protocol", "reason"),
		in:         d("messages_in_total", "Messages that clients published.", "protocol"),
		inBytes:    d("message_in_bytes_total", "Payload bytes that clients published.", "protocol"),
		out:        d("messages_out_total", "Messages handed to clients.", "protocol"),
		outBytes:   d("message_out_bytes_total", "Payload bytes handed to clients.", "protocol"),
		dropped:    d("messages_dropped_total", "Messages given up, by the protocol of the receiver's queue.", "protocol", "reason"),
		unroutable: d("messages_unroutable_total", "Messages that no queue matched."),

		sessions:      d("sessions", "Resumable sessions, with their client connected or not."),
		retained:      d("retained_messages", "Topics that hold a last value."),
		retainedBytes: d("retained_bytes", "Payload bytes of last values."),
		exchanges:     d("exchanges", "Exchanges."),
		queues:        d("queues", "Queues, those behind subscriptions counted."),
		bindings:      d("bindings", "Bindings."),
		consumers:     d("consumers", "Consumers."),
		queued:        d("queue_messages", "Messages in all queues: ready, or delivered and not settled yet.", "state"),
		queuedBytes:   d("queue_bytes", "Payload bytes in all queues."),

		alarm:      d("alarm", "1 while publishers are held back for want of this.", "kind"),
		alarmMark:  d("alarm_mark_bytes", "Where the alarm begins: free space, memory in use; 0 is no alarm.", "kind"),
		diskFree:   d("disk_free_bytes", "Free space on the disk of the data directory, where it is watched."),
		memoryUsed: d("memory_used_bytes", "Memory that is in use and cannot be given back, where it is watched."),
	}
}

// buildInfo is a constant 1 that carries the version.
func buildInfo() prometheus.Metric {
	version := "unknown"
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		version = b.Main.Version
	}
	d := prometheus.NewDesc("entrepot_build_info", "The version that runs.", []string{"version", "goversion"}, nil)
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1, version, runtime.Version())
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.build.Desc(), c.connections, c.connected, c.turnedAway, c.limited, c.loginsRefused, c.in, c.inBytes, c.out, c.outBytes,
		c.dropped, c.unroutable, c.sessions, c.retained, c.retainedBytes, c.exchanges, c.queues,
		c.bindings, c.consumers, c.queued, c.queuedBytes,
		c.alarm, c.alarmMark, c.diskFree, c.memoryUsed,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	to <- c.build
	sum := total{protocols: map[string]core.ProtocolStats{}, limited: map[string]uint64{}}
	refused := c.refused()
	for protocol, limits := range refused {
		for limit, n := range limits {
			to <- prometheus.MustNewConstMetric(c.turnedAway, prometheus.CounterValue, float64(n), protocol, limit)
		}
	}
	c.realms.Each(func(b *core.Broker) { sum.add(b.Stats()) })
	for limit, n := range sum.limited {
		to <- prometheus.MustNewConstMetric(c.limited, prometheus.CounterValue, float64(n), limit)
	}
	for protocol, p := range sum.protocols {
		c.protocol(to, protocol, p)
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	to <- prometheus.MustNewConstMetric(c.unroutable, prometheus.CounterValue, float64(sum.engine.Unroutable))
	gauge(c.sessions, float64(sum.sessions))
	gauge(c.retained, float64(sum.retained))
	gauge(c.retainedBytes, float64(sum.retainedBytes))
	gauge(c.exchanges, float64(sum.engine.Exchanges))
	gauge(c.queues, float64(sum.engine.Queues))
	gauge(c.bindings, float64(sum.engine.Bindings))
	gauge(c.consumers, float64(sum.engine.Consumers))
	gauge(c.queued, float64(sum.engine.Ready), "ready")
	gauge(c.queued, float64(sum.engine.Unsettled), "unsettled")
	gauge(c.queuedBytes, float64(sum.engine.Bytes))
	for _, a := range alarms(c.realms) {
		on, mark := 0.0, 0.0
		if a.On {
			on = 1
		}
		if a.Watched {
			mark = float64(a.Mark)
			gauge(map[core.AlarmKind]*prometheus.Desc{core.DiskAlarm: c.diskFree, core.MemoryAlarm: c.memoryUsed}[a.Kind], float64(a.Have))
		}
		gauge(c.alarm, on, a.Kind.String())
		gauge(c.alarmMark, mark, a.Kind.String())
	}
}

// alarms is one of each kind: of all realms, which share disk and memory, one
// that is on before one that is watched.
func alarms(realms *core.Realms) []core.Alarm {
	var all []core.Alarm
	realms.Each(func(b *core.Broker) {
		for i, a := range b.Alarms() {
			switch {
			case i == len(all):
				all = append(all, a)
			case a.On || a.Watched && !all[i].Watched:
				all[i] = a
			}
		}
	})
	return all
}

func (c *collector) protocol(to chan<- prometheus.Metric, protocol string, p core.ProtocolStats) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{protocol}, labels...)...)
	}
	to <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(p.Connections), protocol)
	counter(c.connected, p.Connected)
	counter(c.in, p.In)
	counter(c.inBytes, p.InBytes)
	counter(c.out, p.Out)
	counter(c.outBytes, p.OutBytes)
	for reason, n := range p.Dropped {
		counter(c.dropped, n, reason)
	}
	for reason, n := range p.RefusedLogins {
		counter(c.loginsRefused, n, reason)
	}
}

// total sums snapshots over realms.
type total struct {
	protocols          map[string]core.ProtocolStats
	sessions, retained int
	limited            map[string]uint64
	retainedBytes      int64
	engine             core.EngineStats
}

func (t *total) add(s core.Stats) {
	t.sessions += s.Sessions
	for limit, n := range s.Limited {
		t.limited[limit] += n
	}
	t.retained += s.Retained
	t.retainedBytes += s.RetainedBytes
	e := &t.engine
	e.Exchanges += s.Engine.Exchanges
	e.Queues += s.Engine.Queues
	e.Bindings += s.Engine.Bindings
	e.Consumers += s.Engine.Consumers
	e.Ready += s.Engine.Ready
	e.Unsettled += s.Engine.Unsettled
	e.Bytes += s.Engine.Bytes
	e.Unroutable += s.Engine.Unroutable
	for name, p := range s.Protocols {
		t.protocols[name] = addProtocol(t.protocols[name], p)
	}
}

func addProtocol(a, b core.ProtocolStats) core.ProtocolStats {
	a.Connections += b.Connections
	a.Connected += b.Connected
	a.In += b.In
	a.InBytes += b.InBytes
	a.Out += b.Out
	a.OutBytes += b.OutBytes
	a.Dropped = added(a.Dropped, b.Dropped)
	a.RefusedLogins = added(a.RefusedLogins, b.RefusedLogins)
	return a
}

// added sums by reason.
func added(a, b map[string]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for _, m := range []map[string]uint64{a, b} {
		for reason, n := range m {
			sum[reason] += n
		}
	}
	return sum
}
