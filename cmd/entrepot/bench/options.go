package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kinds of run.
const (
	Pair   = "pair"
	FanOut = "fanout"
	Idle   = "idle"
	// Against a CoAP server.
	Put     = "put"
	Observe = "observe"
	Devices = "devices"
)

// Limits of what Options may ask for.
const (
	smallest      = payloadHead
	largest       = 16 << 20
	mostPeers     = 100_000
	mostOpen      = 1024   // requests of a CoAP client
	mostUnacked   = 32_767 // half of MQTT's packet ids, so that none is in use twice
	defaultBuffer = 64 << 10
)

// Options says what to measure. Start from DefaultOptions; Run checks them.
type Options struct {
	// Kind is Pair, FanOut or Idle; for a CoAP server Put, Observe or Devices.
	Kind string
	// Publish and Subscribe are the broker's URLs, mqtt://HOST:PORT,
	// stomp://HOST:PORT or amqp://HOST:PORT, with user and password where it
	// wants them. The path of a stomp or amqp URL is the virtual host. A CoAP
	// server is coap://HOST:PORT/PATH, and its resources are PATH/0, PATH/1 ….
	// An empty one is the same as the other.
	Publish, Subscribe string
	// CAs, Cert and Key are files for URLs with TLS: mqtts, stomps, amqps, and
	// coaps, which is DTLS. CAs may have signed the broker's certificate; without,
	// those that the system trusts. The others are the client's own. PSK is a file
	// with NAME:KEY, the key in hex, for coaps in place of certificates.
	CAs, Cert, Key, PSK string
	// Password is that of the URLs' users who have none there.
	Password string
	// Publishers and Subscribers are numbers of connections. A pair run has as
	// many of one as of the other.
	Publishers, Subscribers int
	// Size is the length of a payload in bytes: 16 bytes at least, 24 when
	// latency is measured.
	Size int
	// Messages is what each publisher sends. 0 lets Duration end the run.
	Messages int
	// Warmup passes before the counting of a Duration starts. Messages of that
	// time still count as lost, twice or out of order.
	Duration, Warmup time.Duration
	// Batch is how many messages go into one write. 0 is as many as fit into
	// 64 KiB.
	Batch int
	// Window is how many messages a publisher may be ahead of the slowest of
	// its subscribers, and of the broker's acknowledgements where there are
	// any. 0 sets no bound for subscribers, and 32,767 for acknowledgements. In a
	// Put run it is how many requests a client keeps open.
	Window int
	// Every is how often a device of a Devices run publishes.
	Every time.Duration
	// Stall is how long nothing may move before what is under way counts as
	// lost and the run goes on or ends.
	Stall time.Duration
	// Latency stamps one message in so many of each publisher. 0 stamps none.
	Latency int
	// Procs is how many threads of this process run at a time. On a machine that
	// the broker shares, more than one mostly wake each other. 0 leaves the Go
	// runtime's setting alone.
	Procs int
	// Topic is the common start of all topics, in MQTT's spelling.
	Topic string

	// QoS is the MQTT quality of service of both sides; MQTTVersion is "3.1.1"
	// or "5".
	QoS         int
	MQTTVersion string

	// STOMPVersion is the highest that is offered: 1.0, 1.1 or 1.2.
	STOMPVersion string
	// Destination is topic, queue, amq-queue, exchange, or a STOMP destination
	// in which {} stands for the name. Against queues the MQTT side uses
	// $queue/NAME, and the AMQP side the default exchange; else that uses the
	// exchange amq.topic.
	Destination string
	// Ack is the STOMP ack mode: auto, client or client-individual. For AMQP
	// they are no-ack, one Ack for all of a read, and an Ack for each.
	Ack string
	// Receipts asks for a RECEIPT for each SEND, and for AMQP's confirms;
	// Persistent marks each message.
	Receipts, Persistent bool
	// SendHeaders and SubscribeHeaders are further STOMP headers, name:value.
	SendHeaders, SubscribeHeaders []string

	// PIDs are the broker's processes; Children adds all their descendants.
	PIDs     []int
	Children bool

	// Connections is how many an idle run opens, Settle how long it waits
	// before it reads the broker's memory, Sources how many loopback addresses
	// it connects from (0 is as many as needed).
	Connections int
	Settle      time.Duration
	Sources     int
}

// DefaultOptions is a pair run of 4 to 4 at QoS 0 against an MQTT broker on
// this machine, for 5 seconds.
func DefaultOptions() Options {
	return Options{
		Kind:         Pair,
		Publish:      "mqtt://127.0.0.1:1883",
		Publishers:   4,
		Subscribers:  4,
		Size:         64,
		Duration:     5 * time.Second,
		Warmup:       500 * time.Millisecond,
		Window:       10_000,
		Every:        time.Second,
		Stall:        3 * time.Second,
		Procs:        1,
		Topic:        "bench",
		MQTTVersion:  "3.1.1",
		STOMPVersion: "1.2",
		Destination:  "topic",
		Ack:          "auto",
		Connections:  10_000,
		Settle:       3 * time.Second,
	}
}

// complete fills in what follows from other options and refuses what cannot
// be measured. It returns the two ends of the run.
func (o *Options) complete() (publish, subscribe endpoint, err error) {
	if o.Publish == "" {
		o.Publish = o.Subscribe
	}
	if o.Subscribe == "" {
		o.Subscribe = o.Publish
	}
	if publish, err = parseEndpoint(o.Publish); err != nil {
		return publish, subscribe, err
	}
	if subscribe, err = parseEndpoint(o.Subscribe); err != nil {
		return publish, subscribe, err
	}
	for _, e := range []*endpoint{&publish, &subscribe} {
		if e.login && e.password == "" {
			e.password = o.Password
		}
	}
	err = errors.Join(o.checkNumbers(), o.checkWords(), o.checkCoap(publish, subscribe), o.secure(&publish, &subscribe))
	return publish, subscribe, err
}

func (o *Options) checkNumbers() error {
	ranges := []struct {
		name          string
		value         int
		least, utmost int
	}{
		{"publishers", o.Publishers, 1, mostPeers},
		{"subscribers", o.Subscribers, 1, mostPeers},
		{"connections", o.Connections, 1, 1_000_000},
		{"size", o.Size, o.leastSize(), largest},
		{"messages", o.Messages, 0, 1 << 40},
		{"batch", o.Batch, 0, 1 << 20},
		{"window", o.Window, 0, 1 << 30},
		{"latency", o.Latency, 0, 1 << 30},
		{"qos", o.QoS, 0, 2},
		{"sources", o.Sources, 0, 250},
		{"procs", o.Procs, 0, 1024},
	}
	for _, r := range ranges {
		if r.value < r.least || r.value > r.utmost {
			return fmt.Errorf("option %s: %d is not in %d to %d", r.name, r.value, r.least, r.utmost)
		}
	}
	if o.Kind == Pair && o.Publishers != o.Subscribers {
		return fmt.Errorf("option publishers: a pair run needs as many publishers (%d) as subscribers (%d)", o.Publishers, o.Subscribers)
	}
	if o.Kind != Idle && o.Messages == 0 && o.Duration <= 0 {
		return errors.New("option duration: a run needs messages or a duration")
	}
	if o.Stall <= 0 || o.Warmup < 0 || o.Settle < 0 {
		return errors.New("option stall, warmup, settle: a time below zero, or no stall time")
	}
	return nil
}

// checkCoap refuses a CoAP server for the runs of brokers, and the other way.
func (o *Options) checkCoap(ends ...endpoint) error {
	_, wanted := coapKinds[o.Kind]
	for _, e := range ends {
		if (e.protocol == protocolCOAP) != wanted {
			return fmt.Errorf("option kind: %s, %s and %s runs, and only those, are for coap://", Put, Observe, Devices)
		}
	}
	switch {
	case !wanted:
		return nil
	case o.Size > mostInAPacket:
		return fmt.Errorf("option size: %d; a CoAP message has at most %d bytes here", o.Size, mostInAPacket)
	case o.Duration <= 0 || o.Messages > 0:
		return errors.New("option duration: a CoAP run has one, and no number of messages")
	case o.Kind == Put && (o.Window < 1 || o.Window > mostOpen):
		return fmt.Errorf("option window: %d is not in 1 to %d", o.Window, mostOpen)
	case o.Kind == Devices && o.Every <= 0:
		return errors.New("option every: no time between two messages")
	}
	return nil
}

func (o *Options) leastSize() int {
	if o.Latency > 0 {
		return payloadStamped
	}
	return smallest
}

func (o *Options) checkWords() error {
	choices := []struct {
		name, value string
		among       []string
	}{
		{"kind", o.Kind, []string{Pair, FanOut, Idle, Put, Observe, Devices}},
		{"ack", o.Ack, []string{"auto", "client", "client-individual"}},
		{"mqtt-version", o.MQTTVersion, []string{"3.1.1", "5"}},
		{"stomp-version", o.STOMPVersion, stompVersions},
	}
	for _, c := range choices {
		if !slices.Contains(c.among, c.value) {
			return fmt.Errorf("option %s: %q is none of %s", c.name, c.value, strings.Join(c.among, ", "))
		}
	}
	if strings.Contains(o.Destination, "{}") {
		if strings.ContainsAny(o.Destination, "\r\n:\\") {
			return fmt.Errorf("option destination: %q holds a character that STOMP escapes", o.Destination)
		}
	} else if _, known := destinations[o.Destination]; !known {
		return fmt.Errorf("option destination: %q is none of topic, queue, amq-queue, exchange and holds no {}", o.Destination)
	}
	for _, h := range slices.Concat(o.SendHeaders, o.SubscribeHeaders) {
		if strings.Count(h, ":") != 1 || strings.ContainsAny(h, "\r\n\\") || h[0] == ':' {
			return fmt.Errorf("option header: %q is not name:value without escapes", h)
		}
	}
	return checkTopic(o.Topic)
}

// checkTopic allows only names that are the same in every spelling.
func checkTopic(topic string) error {
	for _, level := range strings.Split(topic, "/") {
		plain := func(r rune) bool {
			return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		}
		if level == "" || strings.IndexFunc(level, func(r rune) bool { return !plain(r) }) >= 0 {
			return fmt.Errorf("option topic: %q may hold letters, digits, - and _ in levels parted by /", topic)
		}
	}
	return nil
}

// batch is how many frames of the given length one write carries.
func (o *Options) batch(frame int) int {
	n := o.Batch
	if n == 0 {
		n = max(1, defaultBuffer/frame)
	}
	if o.Window > 1 {
		n = min(n, o.Window/2)
	} else if o.Window == 1 {
		n = 1
	}
	return n
}
