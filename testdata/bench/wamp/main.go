// Command wamp measures Entrepot beside nexus's router: the same clients, one
// after the other, on the same machine.
//
//	go build -o /tmp/entrepot ./cmd/entrepot
//	go run ./testdata/bench/wamp -entrepot /tmp/entrepot
//
// Publish and subscribe is 4 to 4 and 1 to 50, calls are 4 callers with 64 calls
// open each; 64 bytes, JSON and MessagePack, over WebSocket. The time is the
// router's own processor time, from /proc.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gammazero/nexus/v3/router"
	"github.com/gammazero/nexus/v3/wamp"
)

const (
	window = 64 // messages of a publisher, or calls of a caller, under way
	warmUp = time.Second
)

func main() {
	serve := flag.String("router", "", "only run nexus's router, on this address")
	binary := flag.String("entrepot", "entrepot", "the program to measure")
	period := flag.Duration("period", 5*time.Second, "how long each figure is taken")
	flag.Parse()
	if *serve != "" {
		log.Fatal(nexus(*serve))
	}
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	ours, theirs := freeAddress(), freeAddress()
	for _, r := range []struct {
		name, url string
		cmd       *exec.Cmd
	}{
		{"entrepot", "ws://" + ours + "/ws", exec.Command(*binary, "serve", "--memory", "--mqtt", "off", "--stomp", "off", "--amqp", "off", "--coap", "off", "--http", ours)},
		{"nexus", "ws://" + theirs + "/", exec.Command(self, "-router", theirs)},
	} {
		if err := measure(r.name, r.url, r.cmd, *period); err != nil {
			log.Fatalf("%s: %v", r.name, err)
		}
	}
}

// nexus runs the other router.
func nexus(address string) error {
	quiet := log.New(io.Discard, "", 0)
	r, err := router.NewRouter(&router.Config{RealmConfigs: []*router.RealmConfig{{URI: wamp.URI("realm1"), AnonymousAuth: true}}}, quiet)
	if err != nil {
		return err
	}
	s := router.NewWebsocketServer(r)
	s.OutQueueSize = 1024
	if _, err := s.ListenAndServe(address); err != nil {
		return err
	}
	select {}
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// measure starts a router and prints a line for each figure.
func measure(name, url string, cmd *exec.Cmd, period time.Duration) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		// It is of no more use.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := awaitPort(url); err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	for _, load := range []struct {
		name string
		run  func(*clients) error
	}{{"4 to 4", (*clients).pairs}, {"1 to 50", (*clients).fan}, {"calls", (*clients).calls}} {
		for _, e := range []encoding{jsonEncoding{}, msgpackEncoding{}} {
			c := &clients{url: url, encoding: e}
			if err := load.run(c); err != nil {
				return err
			}
			time.Sleep(warmUp)
			n, cpu, start := c.done.Load(), processorTime(cmd.Process.Pid), time.Now()
			time.Sleep(period)
			did, used := c.done.Load()-n, processorTime(cmd.Process.Pid)-cpu
			fmt.Printf("%-9s %-8s %-8s %9.0f/s %7.2f us each\n", name, load.name, e.name(),
				float64(did)/time.Since(start).Seconds(), float64(used.Microseconds())/float64(did))
			c.close()
		}
	}
	return nil
}

func awaitPort(url string) error {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "ws://"), "/")
	for range 300 {
		c, err := net.Dial("tcp", host)
		if err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("does not listen")
}

// processorTime is what a process has used, user and system.
func processorTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		log.Fatal(err)
	}
	var user, system int64
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// clients are those of one figure.
type clients struct {
	encoding
	url  string
	all  []*client
	done atomic.Int64
	over atomic.Bool
}

func (c *clients) close() {
	c.over.Store(true)
	for _, o := range c.all {
		// The reader sees it.
		_ = o.conn.Close()
	}
}

func (c *clients) pairs() error {
	for i := range 4 {
		if err := c.stream(fmt.Sprintf("bench.t%d", i), 1); err != nil {
			return err
		}
	}
	return nil
}

func (c *clients) fan() error { return c.stream("bench.fan", 50) }

// stream publishes to a topic with so many subscribers.
func (c *clients) stream(topic string, subscribers int) error {
	got := &atomic.Int64{}
	for range subscribers {
		s, err := c.dial()
		if err != nil {
			return err
		}
		if err := s.ask(c.subscribe(topic)); err != nil {
			return err
		}
		go c.each(s, func([]byte) {
			got.Add(1)
			c.done.Add(1)
		})
	}
	p, err := c.dial()
	if err != nil {
		return err
	}
	go c.publisher(p, p.frame(c.publish(topic)), got, int64(subscribers))
	return nil
}

// publisher keeps a window of messages under way.
func (c *clients) publisher(p *client, frame []byte, got *atomic.Int64, subscribers int64) {
	var buf []byte
	for sent := int64(0); !c.over.Load(); {
		room := window - (sent - got.Load()/subscribers)
		if room < window/4 {
			time.Sleep(20 * time.Microsecond)
			continue
		}
		buf = buf[:0]
		for range room {
			buf = append(buf, frame...)
		}
		if _, err := p.conn.Write(buf); err != nil {
			return
		}
		sent += room
	}
}

// calls are 4 callers of a callee each.
func (c *clients) calls() error {
	for i := range 4 {
		procedure := fmt.Sprintf("bench.p%d", i)
		callee, err := c.dial()
		if err != nil {
			return err
		}
		if err := callee.ask(c.register(procedure)); err != nil {
			return err
		}
		go c.each(callee, func(b []byte) { callee.put(c.yield(c.second(b))) })
		caller, err := c.dial()
		if err != nil {
			return err
		}
		id := uint64(1)
		next := func([]byte) {
			id++
			caller.put(c.call(id, procedure))
		}
		for range window {
			next(nil)
		}
		caller.flush()
		go c.each(caller, func(b []byte) {
			c.done.Add(1)
			next(b)
		})
	}
	return nil
}

// each calls f for every message until the connection ends, and writes what f put
// when the input is used up.
func (c *clients) each(o *client, f func([]byte)) {
	for {
		b, err := o.next()
		if err != nil {
			if !c.over.Load() {
				log.Fatal(err)
			}
			return
		}
		f(b)
		if o.in.Buffered() == 0 || len(o.out) > 16<<10 {
			o.flush()
		}
	}
}
