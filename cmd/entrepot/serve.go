package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"entrepot/adapters"
	"entrepot/adapters/admin"
	"entrepot/adapters/amqp"
	"entrepot/adapters/coap"
	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/adapters/wamp"
	"entrepot/conf"
	"entrepot/core"
)

func serveCommand() *cobra.Command {
	var file, data string
	var memory bool
	var mqttListen, stompListen, amqpListen, coapListen, httpListen []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker",
		Long: `Run the broker until SIGINT or SIGTERM. The first signal lets it say good-bye to
its clients, for as long as process.grace allows; a second one ends it at once.

An address is HOST:PORT (port 0 takes any free one), tls:HOST:PORT, unix:/PATH, or
"off", which closes that protocol. For CoAP it is UDP's, or dtls:, tcp:, tls:. One
that other machines reach has to have TLS, and there have to be users; 'entrepot
config' tells more.

Settings come from the file, then from the environment (mqtt.limits.linger is
ENTREPOT_MQTT_LIMITS_LINGER), then from these flags. 'entrepot config' prints a
file with all of them.`,
		Example: `  entrepot serve
  entrepot serve --mqtt 127.0.0.1:1884 --http off
  entrepot serve --mqtt 127.0.0.1:0,unix:/run/entrepot/mqtt.sock --memory
  entrepot serve --config /etc/entrepot.toml`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVarP(&file, "config", "c", "", "settings `FILE`")
	f.StringSliceVar(&mqttListen, "mqtt", nil, "listen for MQTT on `ADDRESS` (repeatable; default 127.0.0.1:1883)")
	f.StringSliceVar(&stompListen, "stomp", nil, "listen for STOMP on `ADDRESS` (repeatable; default 127.0.0.1:61613)")
	f.StringSliceVar(&amqpListen, "amqp", nil, "listen for AMQP 0-9-1 on `ADDRESS` (repeatable; default 127.0.0.1:5672)")
	f.StringSliceVar(&coapListen, "coap", nil, "listen for CoAP on UDP `ADDRESS` (repeatable; default 127.0.0.1:5683)")
	f.StringSliceVar(&httpListen, "http", nil, "listen for HTTP on `ADDRESS`: WebSockets, /healthz, /readyz, /metrics (repeatable; default 127.0.0.1:8080)")
	f.BoolVar(&memory, "memory", false, "keep everything in memory: a restart forgets it")
	f.StringVar(&data, "data", "", "keep what is durable in `DIR` (default entrepot-data, in the current folder)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if memory && f.Changed("data") {
			return usage(errors.New("--memory and --data: one or the other"))
		}
		cfg, err := load(file, func(cfg *conf.Config) {
			override(&cfg.MQTT.Listen, mqttListen)
			override(&cfg.STOMP.Listen, stompListen)
			override(&cfg.AMQP.Listen, amqpListen)
			override(&cfg.CoAP.Listen, coapListen)
			override(&cfg.HTTP.Listen, httpListen)
			if memory || f.Changed("data") {
				cfg.Store.Data = data
			}
		})
		if err != nil {
			return err
		}
		log := newLog(cfg.Log, c.ErrOrStderr())
		defer setMemory(cfg.Process)()
		return serve(c.Context(), cfg, log)
	}
	return c
}

func override(listen *[]string, flag []string) {
	if flag != nil {
		*listen = flag
	}
}

// newLog expects settings that were validated.
func newLog(l conf.Log, to io.Writer) *slog.Logger {
	level, _ := l.SlogLevel()
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, o))
	}
	return slog.New(slog.NewTextHandler(to, o))
}

// serve runs a broker until ctx ends, and stops it in order.
func serve(ctx context.Context, cfg conf.Config, log *slog.Logger) error {
	door, policy, err := access(cfg.Auth, log)
	if err != nil {
		return settings(err)
	}
	again := &reloads{log: log}
	again.onSignal(ctx)
	gate, err := newGate(cfg, again, log)
	if err != nil {
		return settings(err)
	}
	kept, err := openStore(cfg.Store, log)
	if err != nil {
		return err
	}
	defer kept.close()
	broker, err := kept.broker(cfg.Broker, "/", door, policy, log, cfg.Policies)
	if err != nil {
		return err
	}
	rereadUsers(door, cfg.Auth, broker, again)
	again.add("rules", rereadRules(cfg.Auth, broker))
	broker.Probe(kept.probes())
	realms := core.NewRealms(broker)
	var ready atomic.Bool

	m, s := mqtt.New(cfg.MQTT, realms, log), stomp.New(cfg.STOMP, realms, log)
	w := wamp.New(cfg.WAMP, cfg.WebSocket, realms, log)
	c, err := newCoAP(cfg.CoAP, realms, again, log)
	if err != nil {
		return err
	}
	clients := []front{streams("mqtt", m, gate, cfg.MQTT.Listen, "mqtt"), streams("stomp", s, gate, cfg.STOMP.Listen, "stomp"),
		streams("amqp", amqp.New(cfg.AMQP, realms, log), gate, cfg.AMQP.Listen, "amqp"), {protocol: "wamp", server: w},
		onAll(c, cfg.CoAP, cfg.CoAP.PSKFile != "" || cfg.Auth.Users != "", gate)}
	entry := newDoor(cfg.Limits)
	behind(entry, clients)
	var all []front
	web := admin.New(cfg.HTTP, realms, ready.Load, func() map[string]map[string]uint64 { return refused(all) }, log, told(entry, m, c, &all)...)
	web.Behind(entry)
	carry(web, cfg, log, m, s, w)
	asked := takeCommands(web, kept, broker, again, log)
	all = append(clients, streams("http", web, gate, cfg.HTTP.Listen, "http/1.1"))

	err = open(all, log)
	if err == nil {
		defer asked.announce(all[len(all)-1].bound)()
		ready.Store(true)
		log.Info("ready", "version", version())
		<-ctx.Done()
		log.Info("stopping", "grace", cfg.Process.Grace)
	}

	ready.Store(false)
	stopped := stop(context.WithoutCancel(ctx), cfg.Process.Grace, clients, broker, web, log)
	if err = cmp.Or(err, stopped); err == nil {
		log.Info("stopped")
	}
	return err
}

// stop ends all in order.
func stop(ctx context.Context, patience time.Duration, clients []front, broker *core.Broker, web *admin.Server, log *slog.Logger) error {
	grace, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stopped := shutdown(grace, clients)
	broker.Close()
	// Whoever watches the drain over HTTP is served to its end, and is not
	// waited for long.
	last, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	if err := web.Shutdown(last); err != nil {
		log.Warn("cut off", "error", err)
	}
	if stopped != nil {
		return fmt.Errorf("stopped, but not in the grace time of %v: %w", patience, stopped)
	}
	return nil
}

// lastAnswers is how long HTTP may take to end after all else.
const lastAnswers = time.Second

// told are the front-ends' own counts.
func told(d *adapters.Door, m *mqtt.Server, c *coap.Server, fronts *[]front) []admin.Counts {
	return []admin.Counts{
		{Name: "connections_not_begun_total", Help: "Connections that ended before their protocol began: in TLS or the PROXY header.", Label: "reason",
			Read: func() map[string]uint64 { return unopened(*fronts) }},
		{Name: "connections_slowed_total", Help: "How often a connection was not read for a while, by the limit's setting.", Label: "limit",
			Read: func() map[string]uint64 { return map[string]uint64{"limits.chores": d.Slowed()} }},
		{Name: "mqtt_told_total", Help: "Refusals and errors that MQTT clients were told of.", Label: "code", Read: m.Told},
		{Name: "coap_told_total", Help: "What went wrong with CoAP clients, and requests that came again.", Label: "what", Read: c.Told},
		{Name: "coap_kept", Help: "What is remembered of CoAP clients.", Label: "what", Gauge: true, Read: c.Kept},
	}
}

// refused counts, by protocol and limit, the connections that were turned away.
func refused(fronts []front) map[string]map[string]uint64 {
	n := map[string]map[string]uint64{}
	for _, f := range fronts {
		n[f.protocol] = f.server.Refused()
	}
	return n
}

// shutdown stops all fronts at once and waits for them.
func shutdown(ctx context.Context, fronts []front) error {
	errs := make([]error, len(fronts))
	var wg sync.WaitGroup
	for i, f := range fronts {
		wg.Go(func() { errs[i] = f.server.Shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// unopened counts, by reason, the connections that ended before a protocol began.
func unopened(fronts []front) map[string]uint64 {
	sum := map[string]uint64{}
	for _, f := range fronts {
		if s, ok := f.server.(interface{ Unopened() map[string]uint64 }); ok {
			for reason, n := range s.Unopened() {
				sum[reason] += n
			}
		}
	}
	return sum
}
