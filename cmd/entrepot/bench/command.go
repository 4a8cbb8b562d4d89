package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Command is `entrepot bench`.
func Command() *cobra.Command {
	o := DefaultOptions()
	o.Publish = ""
	var asJSON bool
	var token string
	c := &cobra.Command{
		Use:   "bench {pair|fanout|idle|put|observe|devices} [URL]",
		Short: "Measure a broker by URL: rate, processor time, memory, losses",
		Long: `Measure any MQTT, STOMP or AMQP 0-9-1 broker, or CoAP server, by URL.

  pair     the i-th publisher to the i-th subscriber, each pair on a topic of its own
  fanout   all publishers to all subscribers on one topic
  idle     many connections with one subscription each that do nothing
  put      CoAP clients that each keep --window confirmable PUTs open
  observe  for each publisher a CoAP resource with --subscribers observers, lock-step
  devices  --publishers CoAP devices with a socket each, a confirmable PUT --every second

URL is mqtt://HOST:PORT, stomp://HOST:PORT or amqp://HOST:PORT and serves both sides unless --pub
or --sub says otherwise; for the last three it is coap://HOST:PORT/PATH. With mqtts, stomps, amqps and
coaps it is all over TLS or DTLS (--cafile, --cert, --key, --psk). A user whose password is not in the
URL, where others could read it, has that of ENTREPOT_PASSWORD, or a token from --token. With --pid the broker's processor time and memory are
read from /proc.`,
		Example: `  entrepot bench pair mqtt://127.0.0.1:1883 --pid $(pidof mosquitto)
  entrepot bench pair --pub mqtt://127.0.0.1:1883 --sub stomp://127.0.0.1:61613
  entrepot bench fanout --publishers 1 --subscribers 50 --batch 1 --latency 16
  entrepot bench idle --connections 10000 --pid 4711
  entrepot bench pair mqtts://ann@localhost --cafile certs/ca.pem --token ann.jwt
  entrepot bench put coap://127.0.0.1:5683/t/bench --publishers 8 --window 16`,
		Args:         cobra.RangeArgs(1, 2),
		SilenceUsage: true,
	}
	flags(c, &o)
	c.Flags().StringVar(&token, "token", "", "`FILE` with a token that is the password of the URLs' user")
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		o := o
		o.Kind = args[0]
		o.address(args[1:])
		if err := o.proof(token); err != nil {
			return err
		}
		r, err := Run(c.Context(), o)
		if r.Kind == "" {
			return err
		}
		write := r.WriteText
		if asJSON {
			write = r.WriteJSON
		}
		return errors.Join(err, write(c.OutOrStdout()))
	}
	return c
}

// proof reads the password that is not in the URLs.
func (o *Options) proof(token string) error {
	o.Password = os.Getenv("ENTREPOT_PASSWORD")
	if token == "" {
		return nil
	}
	text, err := os.ReadFile(token)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	o.Password = strings.TrimSpace(string(text))
	return nil
}

// address fills in the sides that no flag named.
func (o *Options) address(args []string) {
	url := DefaultOptions().Publish
	switch {
	case len(args) > 0:
		url = args[0]
	case o.Publish+o.Subscribe != "":
		url = ""
	}
	if o.Publish == "" {
		o.Publish = url
	}
	if o.Subscribe == "" {
		o.Subscribe = url
	}
}

func flags(c *cobra.Command, o *Options) {
	f := c.Flags()
	f.StringVar(&o.Publish, "pub", o.Publish, "URL of the publishers' side")
	f.StringVar(&o.Subscribe, "sub", o.Subscribe, "URL of the subscribers' side")
	f.StringVar(&o.CAs, "cafile", "", "trust the CAs in `FILE` instead of the system's")
	f.StringVar(&o.Cert, "cert", "", "show the broker the certificate in `FILE`")
	f.StringVar(&o.Key, "key", "", "`FILE` of that certificate's key")
	f.StringVar(&o.PSK, "psk", "", "coaps: `FILE` with NAME:KEY, the key in hex, in place of certificates")
	f.IntVar(&o.Publishers, "publishers", o.Publishers, "number of publishers")
	f.IntVar(&o.Subscribers, "subscribers", o.Subscribers, "number of subscribers")
	f.IntVar(&o.Size, "size", o.Size, "bytes of payload, 16 at least")
	f.IntVar(&o.Messages, "messages", o.Messages, "messages from each publisher (0: as many as the duration allows)")
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long to measure")
	f.DurationVar(&o.Warmup, "warmup", o.Warmup, "how long to run before a duration begins")
	f.IntVar(&o.Batch, "batch", o.Batch, "messages a write (0: as many as fit into 64 KiB)")
	f.IntVar(&o.Window, "window", o.Window, "messages that a publisher may be ahead of its slowest subscriber and of acknowledgements (0: no bound)")
	f.DurationVar(&o.Every, "every", o.Every, "devices: how often each publishes")
	f.DurationVar(&o.Stall, "stall", o.Stall, "how long nothing may move before messages count as lost")
	f.IntVar(&o.Latency, "latency", o.Latency, "measure the latency of one message in so many (0: of none)")
	f.IntVar(&o.Procs, "procs", o.Procs, "threads of this client that run at a time (0: as many as there are processors)")
	f.StringVar(&o.Topic, "topic", o.Topic, "start of all topics")
	f.IntVar(&o.QoS, "qos", o.QoS, "MQTT quality of service")
	f.StringVar(&o.MQTTVersion, "mqtt-version", o.MQTTVersion, "3.1.1 or 5")
	f.StringVar(&o.STOMPVersion, "stomp-version", o.STOMPVersion, "the highest STOMP version to offer: 1.0, 1.1 or 1.2")
	f.StringVar(&o.Destination, "destination", o.Destination, "STOMP and AMQP destination: topic, queue, amq-queue, exchange, or any of STOMP's with {} for the name")
	f.StringVar(&o.Ack, "ack", o.Ack, "STOMP and AMQP ack mode: auto, client, client-individual")
	f.BoolVar(&o.Receipts, "receipts", o.Receipts, "ask for a STOMP receipt, or an AMQP confirm, for each message")
	f.BoolVar(&o.Persistent, "persistent", o.Persistent, "mark STOMP and AMQP messages persistent")
	f.StringArrayVar(&o.SendHeaders, "send-header", nil, "STOMP header name:value on each SEND (repeatable)")
	f.StringArrayVar(&o.SubscribeHeaders, "subscribe-header", nil, "STOMP header name:value on SUBSCRIBE (repeatable)")
	f.IntSliceVar(&o.PIDs, "pid", nil, "process of the broker (repeatable)")
	f.BoolVar(&o.Children, "children", o.Children, "count all descendants of these processes too")
	f.IntVar(&o.Connections, "connections", o.Connections, "idle: number of connections")
	f.DurationVar(&o.Settle, "settle", o.Settle, "idle: how long to wait before memory is read")
	f.IntVar(&o.Sources, "sources", o.Sources, "idle: loopback addresses to connect from (0: as many as needed)")
}
