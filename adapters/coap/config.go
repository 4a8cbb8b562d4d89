package coap

import (
	"fmt"
	"net"
	"time"

	"entrepot/adapters"
)

// Config is the settings of the CoAP front-end.
type Config struct {
	// Listen are the addresses to serve: UDP, or with tcp:, tls: or dtls: before
	// them.
	Listen []string `toml:"listen"`
	// Limits hold for connections: TCP, TLS and DTLS.
	Limits adapters.Config `toml:"limits"`
	// PSKFile has the keys that DTLS clients share with the broker, one
	// IDENTITY:HEXKEY a line; "" is none.
	PSKFile string `toml:"psk_file"`
	// DTLSIdle is how long a DTLS client may be silent before its association is
	// forgotten.
	DTLSIdle time.Duration `toml:"dtls_idle"`
	// DTLSQuiet is how long a DTLS client has to be silent before it may be put out
	// to make room for another: the one that was silent for longest goes.
	DTLSQuiet time.Duration `toml:"dtls_quiet"`
	// MaxBlock is the largest block of a body in bytes, either way: a power of
	// two from 16 to 1024.
	MaxBlock int `toml:"max_block"`
	// AssemblyBytes bounds what unfinished uploads hold together, Assemblies how
	// many one client may have open.
	AssemblyBytes int `toml:"assembly_bytes"`
	Assemblies    int `toml:"assemblies"`
	// MaxMessageIDs is how many answered message ids are remembered; beyond it
	// the oldest are forgotten before their lifetime is over.
	MaxMessageIDs int `toml:"max_message_ids"`
	// AckTimeout, AckRandom and MaxRetransmit are those of RFC 7252, 4.8.
	AckTimeout    time.Duration `toml:"ack_timeout"`
	AckRandom     float64       `toml:"ack_random"`
	MaxRetransmit int           `toml:"max_retransmit"`
	// AckDelay is how long a request may take before it is acknowledged and
	// answered by a message of its own.
	AckDelay time.Duration `toml:"ack_delay"`
	// Pacing lets a client have one notification in each round-trip time, or one
	// in 3 s as long as that is not known (RFC 7641, 4.5.1).
	Pacing bool `toml:"pacing"`
	// ObserverCheck is the most time between two confirmable notifications.
	ObserverCheck time.Duration `toml:"observer_check"`
	// MaxObservers is how many there may be, MaxPeerObservers of one client.
	MaxObservers     int `toml:"max_observers"`
	MaxPeerObservers int `toml:"max_peer_observers"`
	// FilterTopics is for how many topics a new value may wait for the observer
	// of a filter; beyond it the oldest go.
	FilterTopics int `toml:"filter_topics"`
	// Lease is how long a worker has for a message when it does not say, MaxLease
	// the longest that it may ask for.
	Lease    time.Duration `toml:"lease"`
	MaxLease time.Duration `toml:"max_lease"`
	// MaxLeases is how many messages may be out, MaxLeaseBytes of how many bytes;
	// MaxPeerLeases and MaxPeerLeaseBytes are those of one client: a user, or a
	// network address of which nothing is proved. One message may always be out.
	MaxLeases         int `toml:"max_leases"`
	MaxLeaseBytes     int `toml:"max_lease_bytes"`
	MaxPeerLeases     int `toml:"max_peer_leases"`
	MaxPeerLeaseBytes int `toml:"max_peer_lease_bytes"`
	// CallTimeout is how long a call may take when it does not say.
	CallTimeout time.Duration `toml:"call_timeout"`
	// Echo asks clients whose address is not proven for an Echo option before
	// an answer of more than three times their request (RFC 9175). Loopback
	// addresses are not asked.
	Echo bool `toml:"echo"`
	// MaxStreamRequests is how many requests of one TCP or TLS client may wait for
	// a disk, and MaxStreamBytes how many bytes they may have, before no more is
	// read of it. Calls do not count.
	MaxStreamRequests int `toml:"max_stream_requests"`
	MaxStreamBytes    int `toml:"max_stream_bytes"`
	// MaxWaiting is how many requests may wait for a disk or another client.
	MaxWaiting int `toml:"max_waiting"`
}

// DefaultConfig is what runs when nothing is set.
func DefaultConfig() Config {
	return Config{
		Listen:            []string{"127.0.0.1:5683"},
		Limits:            adapters.DefaultConfig(),
		DTLSQuiet:         5 * time.Minute,
		DTLSIdle:          48 * time.Hour,
		MaxBlock:          1024,
		AssemblyBytes:     64 << 20,
		Assemblies:        4,
		MaxMessageIDs:     4_000_000,
		AckTimeout:        2 * time.Second,
		AckRandom:         1.5,
		MaxRetransmit:     4,
		AckDelay:          500 * time.Millisecond,
		Pacing:            true,
		ObserverCheck:     24 * time.Hour,
		MaxObservers:      100_000,
		MaxPeerObservers:  1_000,
		FilterTopics:      10_000,
		Lease:             time.Minute,
		MaxLease:          12 * time.Hour,
		MaxLeases:         10_000,
		MaxLeaseBytes:     256 << 20,
		MaxPeerLeases:     1_000,
		MaxPeerLeaseBytes: 64 << 20,
		CallTimeout:       time.Minute,
		Echo:              true,
		MaxStreamRequests: 1_000,
		MaxStreamBytes:    4 << 20,
		MaxWaiting:        10_000,
	}
}

// exchangeLifetime is how long a message id names one message (RFC 7252,
// 4.8.2) with the numbers set; 247 s with those of the RFC.
func (c Config) exchangeLifetime() time.Duration {
	const latency = 100 * time.Second
	span := time.Duration(float64(c.AckTimeout) * float64(int(1)<<c.MaxRetransmit-1) * c.AckRandom)
	return span + 2*latency + c.AckTimeout
}

// Validate returns an error for a setting that makes no sense.
func (c Config) Validate() error {
	if err := c.Limits.Validate(); err != nil {
		return fmt.Errorf("coap: limits: %w", err)
	}
	for _, n := range []struct {
		name      string
		value     int64
		low, high int64
	}{
		{"max_block", int64(c.MaxBlock), 16, 1024},
		{"assembly_bytes", int64(c.AssemblyBytes), 1024, 1 << 40},
		{"assemblies", int64(c.Assemblies), 1, 1_000},
		{"max_message_ids", int64(c.MaxMessageIDs), 1_000, 1 << 32},
		{"max_retransmit", int64(c.MaxRetransmit), 0, 20},
		{"max_observers", int64(c.MaxObservers), 0, 1 << 32},
		{"max_peer_observers", int64(c.MaxPeerObservers), 1, 1 << 32},
		{"filter_topics", int64(c.FilterTopics), 1, 1 << 32},
		{"max_stream_requests", int64(c.MaxStreamRequests), 1, 1 << 32},
		{"max_stream_bytes", int64(c.MaxStreamBytes), 1024, 1 << 40},
		{"max_waiting", int64(c.MaxWaiting), 1, 1 << 32},
		{"max_leases", int64(c.MaxLeases), 1, 1 << 32},
		{"max_lease_bytes", int64(c.MaxLeaseBytes), 1024, 1 << 40},
		{"max_peer_leases", int64(c.MaxPeerLeases), 1, 1 << 32},
		{"max_peer_lease_bytes", int64(c.MaxPeerLeaseBytes), 1024, 1 << 40},
		{"lease", int64(c.Lease), int64(time.Millisecond), int64(c.MaxLease)},
		{"call_timeout", int64(c.CallTimeout), int64(time.Millisecond), int64(24 * time.Hour)},
		{"ack_timeout", int64(c.AckTimeout), int64(10 * time.Millisecond), int64(time.Hour)},
		{"dtls_idle", int64(c.DTLSIdle), int64(time.Minute), int64(365 * 24 * time.Hour)},
		{"dtls_quiet", int64(c.DTLSQuiet), int64(time.Second), int64(365 * 24 * time.Hour)},
		{"ack_delay", int64(c.AckDelay), 0, int64(time.Minute)},
		{"observer_check", int64(c.ObserverCheck), int64(time.Second), int64(365 * 24 * time.Hour)},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("coap: %s %d: from %d to %d", n.name, n.value, n.low, n.high)
		}
	}
	return c.validateRest()
}

func (c Config) validateRest() error {
	if c.MaxBlock&(c.MaxBlock-1) != 0 {
		return fmt.Errorf("coap: max_block %d: a power of two", c.MaxBlock)
	}
	if !(c.AckRandom >= 1 && c.AckRandom <= 10) {
		return fmt.Errorf("coap: ack_random %v: from 1 to 10", c.AckRandom)
	}
	for _, a := range c.Listen {
		at, err := adapters.ParseAddress(a, adapters.OverUDP)
		if err != nil {
			continue // said elsewhere
		}
		host, _, err := net.SplitHostPort(at.At)
		if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsMulticast() {
			return fmt.Errorf("coap: listen %q: no multicast", a)
		}
	}
	return nil
}
