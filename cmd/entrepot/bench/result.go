package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Result is what a run showed. Times are microseconds where the name says
// micros; memory is KiB. A figure that was not measured is 0 and is left out
// of the JSON form where 0 says nothing.
type Result struct {
	Kind        string        `json:"kind"`
	Publish     string        `json:"publish"`   // protocol
	Subscribe   string        `json:"subscribe"` // protocol
	Publishers  int           `json:"publishers,omitempty"`
	Subscribers int           `json:"subscribers,omitempty"`
	Size        int           `json:"size,omitempty"`
	QoS         int           `json:"qos"`
	Batch       int           `json:"batch,omitempty"` // messages a write
	Window      int           `json:"window,omitempty"`
	Every       time.Duration `json:"every_ns,omitempty"` // of a device

	// Of the measured part of the run.
	Seconds         float64 `json:"seconds"`
	SentRate        float64 `json:"sent_rate"`                 // messages a second
	Rate            float64 `json:"rate"`                      // deliveries a second
	CPUMicros       float64 `json:"cpu_micros,omitempty"`      // of the broker, a delivery
	Cores           float64 `json:"cores,omitempty"`           // that the broker kept busy
	ClientCPUMicros float64 `json:"client_cpu_micros"`         // of this process, a delivery
	PeakRSS         int     `json:"peak_rss_kib,omitempty"`    // of the broker
	LatencyP50      float64 `json:"latency_p50_us,omitempty"`  // of the stamped messages
	LatencyP99      float64 `json:"latency_p99_us,omitempty"`  //
	LatencyMax      float64 `json:"latency_max_us,omitempty"`  //
	LatencySamples  uint64  `json:"latency_samples,omitempty"` //

	// Of the whole run, warm-up included, summed over all pairs of publisher
	// and subscriber.
	Sent       uint64 `json:"sent"`
	Delivered  uint64 `json:"delivered"` // different messages
	Lost       uint64 `json:"lost"`
	Twice      uint64 `json:"twice"`
	OutOfOrder uint64 `json:"out_of_order"`
	Foreign    uint64 `json:"foreign"` // of another run or sender
	Unacked    uint64 `json:"unacked"` // sent, but not acknowledged to the publisher
	Refused    uint64 `json:"refused"` // acknowledged with a reason code that says no
	Again      uint64 `json:"again"`   // requests that a CoAP client sent again
	Stalls     uint64 `json:"stalls"`  // times that a publisher gave up waiting

	// Of an idle run; the memory of a CoAP run, too.
	Connections   int     `json:"connections,omitempty"`
	Answered      int     `json:"answered,omitempty"` // connections that got a message at the end
	RSSBefore     int     `json:"rss_before_kib,omitempty"`
	RSSAfter      int     `json:"rss_after_kib,omitempty"`
	RSSConnection float64 `json:"rss_connection_kib,omitempty"` // resident KiB a connection
}

// describe copies what the run was.
func (r *Result) describe(o *Options, publish, subscribe endpoint) {
	r.Kind, r.Publish, r.Subscribe, r.QoS = o.Kind, publish.protocol, subscribe.protocol, o.QoS
	if o.Kind == Idle {
		return
	}
	r.Publishers, r.Subscribers, r.Size, r.Window = o.Publishers, o.Subscribers, o.Size, o.Window
	if o.Kind == Devices {
		r.Every = o.Every
	}
}

// result sums up a traffic run whose goroutines have ended.
func (t *traffic) result(from, to mark) Result {
	var r Result
	r.PeakRSS = t.peak
	r.rates(from, to)
	for _, p := range t.publishers {
		r.Sent += p.sent.Load()
		r.Refused += p.answers.refused
		r.Stalls += p.stalls
		r.Batch = p.batch
		if p.asks {
			r.Unacked += p.sent.Load() - min(p.answers.acked, p.sent.Load())
		}
	}
	var latency histogram
	for _, s := range t.subscribers {
		r.Foreign += s.foreign
		if s.latency != nil {
			latency.merge(s.latency)
		}
		for i := range s.flows {
			f := &s.flows[i]
			r.Delivered += f.delivered()
			r.Twice += f.twice
			r.OutOfOrder += f.late
			r.Lost += f.lost(t.publishers[s.first+i].sent.Load())
		}
	}
	r.times(&latency)
	return r
}

// rates sums up what happened between two marks.
func (r *Result) rates(from, to mark) {
	span := to.at.Sub(from.at).Seconds()
	if span <= 0 {
		return
	}
	delivered := to.delivered - from.delivered
	r.Seconds = span
	r.SentRate = float64(to.sent-from.sent) / span
	r.Rate = float64(delivered) / span
	r.Cores = (to.broker - from.broker).Seconds() / span
	if delivered > 0 {
		r.CPUMicros = micros(to.broker-from.broker) / float64(delivered)
		r.ClientCPUMicros = micros(to.self-from.self) / float64(delivered)
	}
}

func (r *Result) times(latency *histogram) {
	if latency.total == 0 {
		return
	}
	r.LatencySamples = latency.total
	r.LatencyP50 = micros(latency.quantile(0.5))
	r.LatencyP99 = micros(latency.quantile(0.99))
	r.LatencyMax = micros(latency.longest)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// WriteJSON writes r as one line.
func (r Result) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText writes r for people.
func (r Result) WriteText(w io.Writer) error {
	p := &printer{w: w}
	if r.Kind == Idle {
		p.line("idle over %s: %d connections with one subscription each", r.Subscribe, r.Connections)
		if r.RSSAfter > 0 {
			p.line("  broker memory  %.1f MiB before, %.1f MiB after: %.1f KiB a connection",
				mib(r.RSSBefore), mib(r.RSSAfter), r.RSSConnection)
		}
		p.line("  answered       %d got a message afterwards", r.Answered)
		return p.err
	}
	if coapKinds[r.Kind] != nil {
		r.coapText(p)
		return p.err
	}
	p.line("%s %s to %s: %d publishers, %d subscribers, %d B, QoS %d, %d messages a write, window %d",
		r.Kind, r.Publish, r.Subscribe, r.Publishers, r.Subscribers, r.Size, r.QoS, r.Batch, r.Window)
	p.line("  delivered      %.0f messages a second for %.2f s (sent %.0f a second)", r.Rate, r.Seconds, r.SentRate)
	if r.PeakRSS > 0 {
		p.line("  broker         %.2f us of processor time a delivery (%.2f cores), %.1f MiB resident at most", r.CPUMicros, r.Cores, mib(r.PeakRSS))
	}
	p.line("  this client    %.2f us of processor time a delivery", r.ClientCPUMicros)
	if r.LatencySamples > 0 {
		p.line("  latency        %.0f us median, %.0f us p99, %.0f us longest of %d samples", r.LatencyP50, r.LatencyP99, r.LatencyMax, r.LatencySamples)
	}
	p.line("  whole run      %d sent, %d delivered; %d lost, %d twice, %d out of order, %d foreign", r.Sent, r.Delivered, r.Lost, r.Twice, r.OutOfOrder, r.Foreign)
	if r.Unacked+r.Refused+r.Stalls > 0 {
		p.line("  trouble        %d not acknowledged, %d refused, %d stalls", r.Unacked, r.Refused, r.Stalls)
	}
	return p.err
}

// coapText is WriteText for a run against a CoAP server.
func (r Result) coapText(p *printer) {
	what := "answered"
	switch r.Kind {
	case Put:
		p.line("put: %d clients with %d confirmable PUTs open each, %d B", r.Publishers, r.Window, r.Size)
	case Observe:
		what = "notified"
		p.line("observe: %d resources with %d observers each, %d B, the next value when all have the last", r.Publishers, r.Subscribers, r.Size)
	case Devices:
		p.line("devices: %d devices, a confirmable PUT in each %v, %d B", r.Publishers, r.Every, r.Size)
	}
	p.line("  %s       %.0f a second for %.2f s (sent %.0f a second)", what, r.Rate, r.Seconds, r.SentRate)
	if r.PeakRSS > 0 {
		p.line("  server         %.2f us of processor time each (%.2f cores); memory %.1f MiB before, %.1f MiB after, %.1f MiB at most",
			r.CPUMicros, r.Cores, mib(r.RSSBefore), mib(r.RSSAfter), mib(r.PeakRSS))
	}
	p.line("  this client    %.2f us of processor time each", r.ClientCPUMicros)
	p.line("  latency        %.0f us median, %.0f us p99, %.0f us longest of %d", r.LatencyP50, r.LatencyP99, r.LatencyMax, r.LatencySamples)
	p.line("  whole run      %d sent, %d %s; %d lost, %d refused, %d sent again", r.Sent, r.Delivered, what, r.Lost, r.Refused, r.Again)
}

func mib(kib int) float64 { return float64(kib) / 1024 }

// printer keeps the first error of a row of writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
