package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// coapRun is a run against a CoAP server. Its counters are all clients'.
type coapRun struct {
	o      *Options
	end    endpoint
	broker *processes
	self   *processes

	sent      atomic.Uint64 // requests, each counted once
	delivered atomic.Uint64 // answers of puts, notifications of observations
	lost      atomic.Uint64
	refused   atomic.Uint64 // answers that say no
	again     atomic.Uint64 // retransmissions

	mu      sync.Mutex
	latency histogram

	stop     atomic.Bool
	failures chan error
	clients  sync.WaitGroup
	peak     int // of the server's memory, KiB
}

// coapKinds are the kinds of run that a CoAP server is for.
var coapKinds = map[string]func(*coapRun, context.Context) error{
	Put: (*coapRun).startPuts, Observe: (*coapRun).startObservation, Devices: (*coapRun).startDevices,
}

// runCoap does such a run.
func runCoap(ctx context.Context, o *Options, end endpoint) (Result, error) {
	c := &coapRun{o: o, end: end, failures: make(chan error, 1)}
	var err error
	if c.broker, err = watch(o.PIDs, o.Children); err != nil {
		return Result{}, fmt.Errorf("option pid: %w", err)
	}
	c.self = &processes{roots: []int{os.Getpid()}, all: []int{os.Getpid()}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := c.broker.resident()
	if err := coapKinds[o.Kind](c, ctx); err != nil {
		c.stop.Store(true)
		c.clients.Wait()
		return Result{}, err
	}
	if err = c.pass(ctx, o.Warmup); err != nil {
		return Result{}, errors.Join(err, c.leave())
	}
	from := c.mark()
	err = c.pass(ctx, o.Duration)
	to := c.mark()
	r := c.result(from, to)
	r.RSSBefore, r.RSSAfter = before, c.broker.resident()
	err = errors.Join(err, c.leave())
	r.Sent, r.Delivered, r.Lost, r.Refused, r.Again = c.sent.Load(), c.delivered.Load(), c.lost.Load(), c.refused.Load(), c.again.Load()
	return r, err
}

// leave ends the clients and waits for them.
func (c *coapRun) leave() error {
	c.stop.Store(true)
	c.clients.Wait()
	select {
	case err := <-c.failures:
		return err
	default:
		return nil
	}
}

// goes runs a client.
func (c *coapRun) goes(who string, i int, client func() error) {
	c.clients.Go(func() {
		if err := client(); err != nil {
			select {
			case c.failures <- fmt.Errorf("%s %d: %w", who, i, err):
			default:
			}
		}
	})
}

// pass lets time pass, unless a client fails.
func (c *coapRun) pass(ctx context.Context, span time.Duration) error {
	return c.broker.await(ctx, time.After(span), nil, c.failures, &c.peak)
}

func (c *coapRun) mark() mark {
	m := mark{at: time.Now(), sent: c.sent.Load(), delivered: c.delivered.Load()}
	m.broker, _ = c.broker.cpu() // 0 when it has died, which the clients report
	m.self, _ = c.self.cpu()
	c.peak = max(c.peak, c.broker.resident())
	return m
}

// took notes how long an answer took.
func (c *coapRun) took(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency.add(d)
}

func (c *coapRun) result(from, to mark) Result {
	var r Result
	r.rates(from, to)
	r.PeakRSS = c.peak
	c.mu.Lock()
	defer c.mu.Unlock()
	r.times(&c.latency)
	return r
}
