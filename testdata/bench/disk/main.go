// Command disk prints what the disk side of a broker takes in time and memory:
//
//	go run ./testdata/bench/disk -dir /tmp/x -step fill -n 10000000
//	go run ./testdata/bench/disk -dir /tmp/x -step start
//	go run ./testdata/bench/disk -dir /tmp/x -step consume -n 10000000
//	go run ./testdata/bench/disk -dir /tmp/y -step retain -n 1000000
//	go run ./testdata/bench/disk -dir /tmp/y -step sessions -n 100000
//	go run ./testdata/bench/disk -dir /tmp/y -step start
//	go run ./testdata/bench/disk -dir /tmp/x -step all        # all of these, as a table
//
// Each step is a process of its own, so that its figures are its own.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
	"entrepot/routing"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "", "data `directory`")
	step := flag.String("step", "", "fill, start, consume, retain, sessions or all")
	n := flag.Int("n", 1_000_000, "how many")
	size := flag.Int("size", 256, "payload `bytes`")
	heap := flag.String("heap", "", "write a heap profile to `file` at the end")
	flag.Parse()
	if *step == "all" && *dir != "" {
		if err := all(*dir, *size); err != nil {
			log.Fatal(err)
		}
		return
	}
	steps := map[string]func(*world, int, int) error{
		"fill": fill, "start": start, "consume": consume, "retain": retain, "sessions": sessions}
	f := steps[*step]
	if *dir == "" || f == nil {
		flag.Usage()
		os.Exit(2)
	}
	w, err := open(*dir)
	if err == nil {
		err = f(w, *n, *size)
	}
	if err == nil && *heap != "" {
		err = writeHeap(*heap)
	}
	if err == nil {
		err = w.close()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// all runs every step with the full numbers, in two directories under dir that
// it removes again, and prints a table.
func all(dir string, size int) error {
	queue, state := filepath.Join(dir, "queue"), filepath.Join(dir, "state")
	defer os.RemoveAll(queue)
	defer os.RemoveAll(state)
	fmt.Println("| step | figures |\n|---|---|")
	for _, s := range []struct {
		dir, step string
		n         int
	}{
		{queue, "fill", 10_000_000}, {queue, "start", 0}, {queue, "consume", 10_000_000},
		{state, "retain", 1_000_000}, {state, "sessions", 100_000}, {state, "start", 0},
	} {
		c := exec.Command(os.Args[0], "-dir", s.dir, "-step", s.step, "-n", fmt.Sprint(s.n), "-size", fmt.Sprint(size))
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", s.step, err)
		}
		for line := range strings.Lines(string(out)) {
			fmt.Printf("| %s | %s |\n", s.step, strings.TrimSpace(line))
		}
	}
	return nil
}

// writeHeap leaves a profile of what is alive.
func writeHeap(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// world is a broker without clients.
type world struct {
	store  *store.Store
	engine *local.Engine
	broker *core.Broker
}

func open(dir string) (*world, error) {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	begin := time.Now()
	st, err := store.Open(dir, store.Options{Log: quiet})
	if err != nil {
		return nil, err
	}
	opened := time.Since(begin)
	e, err := local.Open(quiet, st, "/")
	if err != nil {
		return nil, err
	}
	queues := time.Since(begin) - opened
	b := core.NewBroker(core.DefaultConfig(), "/", e, nil, quiet)
	if err := b.Restore(st); err != nil {
		return nil, err
	}
	s := b.Stats()
	fmt.Printf("start: %.2f s (store %.2f, queues %.2f, rest %.2f): %d queues, %d messages, %d retained, %d sessions; %s\n",
		time.Since(begin).Seconds(), opened.Seconds(), queues.Seconds(), (time.Since(begin) - opened - queues).Seconds(),
		s.Engine.Queues, s.Engine.Ready, s.Retained, s.Sessions, memory())
	return &world{st, e, b}, nil
}

func (w *world) close() error {
	begin := time.Now()
	w.broker.Close()
	err := w.store.Close()
	fmt.Printf("close: %.2f s; %s\n", time.Since(begin).Seconds(), memory())
	return err
}

// memory is what the process has, now and at most.
func memory() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return fmt.Sprintf("%d MiB from the system", m.Sys>>20)
	}
	var parts []string
	for _, line := range strings.Split(string(text), "\n") {
		for _, name := range []string{"VmRSS:", "VmHWM:"} {
			if v, ok := strings.CutPrefix(line, name); ok {
				var kib int
				if _, err := fmt.Sscan(v, &kib); err == nil {
					parts = append(parts, fmt.Sprintf("%s %d MiB", name[2:5], kib>>10))
				}
			}
		}
	}
	return strings.Join(parts, ", ")
}

const queueName = "bench"

// fill sends durable messages, a thousand of them unconfirmed at a time.
func fill(w *world, n, size int) error {
	_, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(queueName), Durable: true})
	if err != nil {
		return err
	}
	a, err := core.QueueAddress(queueName)
	if err != nil {
		return err
	}
	room := make(chan struct{}, 1000)
	var failed atomic.Pointer[error]
	done := func(_ bool, err error) {
		if err != nil {
			failed.Store(&err)
		}
		<-room
	}
	b := &core.Batch{}
	p := newProgress(n)
	noise := rand.NewChaCha8([32]byte{}) // what no compression makes smaller
	for i := range n {
		m := core.NewMessage(size)
		_, _ = noise.Read(m.Payload) // never an error
		binary.BigEndian.PutUint64(m.Payload, uint64(i))
		m.Topic, m.Guarantee = a.Topic, core.Durable
		room <- struct{}{}
		w.engine.Publish(b, m, done)
		b.Flush()
		p.at(i + 1)
	}
	for range cap(room) {
		room <- struct{}{}
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	p.end("filled")
	return nil
}

func start(*world, int, int) error { return nil }

// consume acknowledges n messages, a hundred out at a time.
func consume(w *world, n, _ int) error {
	info, err := w.engine.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(queueName), Passive: true})
	if err != nil {
		return err
	}
	c := &taker{out: make(chan uint64, 100)}
	if c.consumer, err = w.engine.Consume(context.Background(), core.Named(queueName), core.ConsumeOptions{}, c); err != nil {
		return err
	}
	n = min(n, info.Messages)
	p := newProgress(n)
	for i := range n {
		seq := <-c.out
		if err := c.consumer.Settle(nil, core.Ack, seq); err != nil {
			return err
		}
		p.at(i + 1)
	}
	p.end("consumed")
	return nil
}

type taker struct {
	out      chan uint64
	consumer core.Consumer
}

// Deliver implements core.Receiver.
func (c *taker) Deliver(d core.Delivery) core.Verdict {
	select {
	case c.out <- d.Seq:
		return core.Held
	default:
		return core.Full
	}
}

// retain keeps a message of 64 bytes for each of n topics.
func retain(w *world, n, _ int) error {
	s, _, err := w.broker.Connect(context.Background(), core.Hello{Protocol: "bench"})
	if err != nil {
		return err
	}
	defer s.Close(core.CloseNormal)
	var wg sync.WaitGroup
	l := core.NewLane(&core.Batch{})
	p := newProgress(n)
	for i := range n {
		m := core.NewMessage(64)
		m.Exchange, m.Retain, m.Guarantee = core.TopicExchange, true, core.Durable
		if m.Topic, err = routing.NewTopic("site", fmt.Sprint("area", i%1000), fmt.Sprint("device", i), "state"); err != nil {
			return err
		}
		wg.Add(1)
		s.Publish(l, m, func(_ bool, err error) {
			if err != nil {
				log.Print(err)
			}
			wg.Done()
		})
		if i%1000 == 999 {
			l.Batch.Flush()
			wg.Wait()
		}
		p.at(i + 1)
	}
	wg.Wait()
	p.end("retained")
	return nil
}

// sessions makes n client sessions with a queue and two subscriptions each.
func sessions(w *world, n, _ int) error {
	var wg sync.WaitGroup
	work := make(chan int)
	p := newProgress(n)
	var ready atomic.Int64
	for range 64 { // each waits for the disk
		wg.Go(func() {
			for i := range work {
				if err := session(w, i); err != nil {
					log.Print(err)
				}
				ready.Add(1)
			}
		})
	}
	for i := range n {
		work <- i
		p.at(int(ready.Load()))
	}
	close(work)
	wg.Wait()
	p.end("sessions")
	return nil
}

func session(w *world, i int) error {
	ctx := context.Background()
	id := fmt.Sprint("client-", i)
	s, _, err := w.broker.Connect(ctx, core.Hello{Protocol: "mqtt", ClientID: id, Resumable: true, Expiry: core.Forever})
	if err != nil {
		return err
	}
	defer s.Close(core.CloseNormal)
	k := core.Key(core.SessionQueue, "mqtt", id)
	if _, err := s.DeclareQueue(ctx, core.QueueSpec{Key: k, Durable: true, Exclusive: true}); err != nil {
		return err
	}
	for _, topic := range []string{"commands/" + id, "site/area" + fmt.Sprint(i%1000) + "/#"} {
		f, err := routing.MQTT.ParseFilter(topic)
		if err != nil {
			return err
		}
		if err := s.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: f, Replay: core.ReplayNever}); err != nil {
			return err
		}
	}
	return nil
}

// progress prints the rate of each tenth.
type progress struct {
	n, last int
	begin   time.Time
	since   time.Time
}

func newProgress(n int) *progress { return &progress{n: n, begin: time.Now(), since: time.Now()} }

func (p *progress) at(i int) {
	if step := max(p.n/10, 1); i >= p.last+step && i < p.n {
		fmt.Printf("  %9d: %8.0f/s; %s\n", i, float64(i-p.last)/time.Since(p.since).Seconds(), memory())
		p.last, p.since = i, time.Now()
	}
}

func (p *progress) end(what string) {
	d := time.Since(p.begin).Seconds()
	fmt.Printf("%s: %d in %.1f s, %.0f/s; %s\n", what, p.n, d, float64(p.n)/d, memory())
}
