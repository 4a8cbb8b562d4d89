package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"entrepot/adapters"
	"entrepot/adapters/admin"
	"entrepot/adapters/amqp"
	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/adapters/wamp"
	"entrepot/conf"
	"entrepot/core"
)

func serveCommand() *cobra.Command {
	var file, data string
	var memory bool
	var mqttListen, stompListen, amqpListen, httpListen []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker",
		Long: `Run the broker until SIGINT or SIGTERM. The first signal lets it say good-bye to
its clients, for as long as process.grace allows; a second one ends it at once.

An address is HOST:PORT (port 0 takes any free one), unix:/PATH, or "off", which
closes that protocol. This version has no TLS yet, so the host must be this
machine's own: 127.0.0.1, [::1] or localhost.

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

// server is what a front-end gives to be run.
type server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Refused() uint64
}

// front is one protocol: its server and where that listens.
type front struct {
	protocol string
	server   server
	listen   []string
	bound    []string // addresses, by open
}

// serve runs a broker until ctx ends, and stops it in order.
func serve(ctx context.Context, cfg conf.Config, log *slog.Logger) error {
	users, policy, err := access(cfg.Auth, log)
	if err != nil {
		return settings(err)
	}
	kept, err := openStore(cfg.Store, log)
	if err != nil {
		return err
	}
	defer kept.close()
	broker, err := kept.broker(cfg.Broker, "/", policy, log)
	if err != nil {
		return err
	}
	broker.SetUsers(users)
	broker.Probe(kept.probes())
	realms := core.NewRealms(broker)
	var ready atomic.Bool

	m, s := mqtt.New(cfg.MQTT, realms, log), stomp.New(cfg.STOMP, realms, log)
	w := wamp.New(cfg.WAMP, cfg.WebSocket, realms, log)
	clients := []front{{protocol: "mqtt", server: m, listen: cfg.MQTT.Listen}, {protocol: "stomp", server: s, listen: cfg.STOMP.Listen},
		{protocol: "amqp", server: amqp.New(cfg.AMQP, realms, log), listen: cfg.AMQP.Listen}, {protocol: "wamp", server: w}}
	var all []front
	web := admin.New(cfg.HTTP, realms, ready.Load, func() map[string]uint64 { return refused(all) }, log, admin.Counts{
		Name: "mqtt_told_total", Help: "Refusals and errors that MQTT clients were told of.", Label: "code", Read: m.Told})
	carry(web, cfg, log, m, s, w)
	asked := takeCommands(web, kept, broker, log)
	all = append(clients, front{protocol: "http", server: web, listen: cfg.HTTP.Listen})

	err = open(all, log)
	if err == nil {
		defer asked.announce(all[len(all)-1].bound)()
		ready.Store(true)
		log.Info("ready", "version", version())
		<-ctx.Done()
		log.Info("stopping", "grace", cfg.Process.Grace)
	}

	ready.Store(false)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Process.Grace)
	defer cancel()
	stopped := shutdown(grace, clients)
	broker.Close()
	// Whoever watches the drain over HTTP is served to its end, and is not
	// waited for long.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := web.Shutdown(last); err != nil {
		log.Warn("cut off", "error", err)
	}
	if err != nil {
		return err
	}
	if stopped != nil {
		return fmt.Errorf("stopped, but not in the grace time of %v: %w", cfg.Process.Grace, stopped)
	}
	log.Info("stopped")
	return nil
}

// refused counts, by protocol, the connections that a limit turned away.
func refused(fronts []front) map[string]uint64 {
	n := map[string]uint64{}
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

// open binds every address first, and only then lets anybody in. Its error
// names all addresses that cannot be had.
func open(fronts []front, log *slog.Logger) error {
	var errs []error
	bound := make([][]net.Listener, len(fronts))
	for i, f := range fronts {
		addresses, err := conf.ParseAddresses(f.listen)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.protocol, err))
		}
		for _, a := range addresses {
			l, err := adapters.Listen(a)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w (flag --%s, key %s.listen)", f.protocol, err, f.protocol, f.protocol))
				continue
			}
			bound[i] = append(bound[i], l)
		}
	}
	for i, f := range fronts {
		for _, l := range bound[i] {
			if len(errs) > 0 {
				// The first errors are what counts.
				_ = l.Close()
				continue
			}
			if err := f.server.Serve(l); err != nil {
				return err
			}
			fronts[i].bound = append(fronts[i].bound, shown(l.Addr()))
			log.Info("listening", "protocol", f.protocol, "address", shown(l.Addr()))
		}
	}
	return errors.Join(errs...)
}

// shown is an address as settings and clients write it.
func shown(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}
