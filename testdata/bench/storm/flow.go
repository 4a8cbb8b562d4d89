package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// window is the time in which goodput is counted.
const window = 100 * time.Millisecond

// flow is clients that stay: so many publishers, each with its subscriber.
type flow struct {
	conns []net.Conn
	got   atomic.Int64
	end   chan struct{}
	wg    sync.WaitGroup

	mu        sync.Mutex
	windows   []int
	latencies []time.Duration
}

// goodput is messages a second.
type goodput struct {
	Mean, Worst float64 // Worst is that of the worst window
	P99         time.Duration
	Windows     int
}

func (g goodput) String() string {
	return fmt.Sprintf("%.0f msg/s (worst tenth of a second %.0f), p99 latency %v", g.Mean, g.Worst, g.P99.Round(10*time.Microsecond))
}

func startFlow(o *options, address string) (*flow, error) {
	f := &flow{end: make(chan struct{})}
	for i := range o.pairs {
		topic := fmt.Sprintf("flow/%d", i)
		sub, r, err := f.dial(address, fmt.Sprintf("flow-s%d", i))
		if err != nil {
			return nil, err
		}
		if err := subscribe(sub, r, topic, 0); err != nil {
			return nil, err
		}
		pub, _, err := f.dial(address, fmt.Sprintf("flow-p%d", i))
		if err != nil {
			return nil, err
		}
		f.wg.Go(func() { f.receive(r) })
		f.wg.Go(func() { f.send(pub, topic, time.Second*time.Duration(o.pairs)/time.Duration(o.rate)) })
	}
	f.wg.Go(f.count)
	return f, nil
}

func (f *flow) dial(address, id string) (net.Conn, *bufio.Reader, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, nil, err
	}
	f.conns = append(f.conns, c)
	r := bufio.NewReader(c)
	_, err = greet(c, r, id, false)
	return c, r, err
}

// send publishes one message in every interval; what it is late by it makes up
// for.
func (f *flow) send(c net.Conn, topic string, every time.Duration) {
	payload := make([]byte, 100)
	next := time.Now()
	for {
		select {
		case <-f.end:
			return
		case <-time.After(time.Until(next)):
		}
		for ; time.Now().After(next); next = next.Add(every) {
			binary.BigEndian.PutUint64(payload, uint64(time.Now().UnixNano()))
			if _, err := c.Write(publishPacket(topic, 0, 0, payload)); err != nil {
				return
			}
		}
	}
}

func (f *flow) receive(r *bufio.Reader) {
	for {
		_, body, err := readPacket(r)
		if err != nil {
			return
		}
		f.got.Add(1)
		at := 2 + int(binary.BigEndian.Uint16(body))
		sent := time.Unix(0, int64(binary.BigEndian.Uint64(body[at:])))
		late := time.Since(sent)
		f.mu.Lock()
		f.latencies = append(f.latencies, late)
		f.mu.Unlock()
	}
}

// count notes what came in every window.
func (f *flow) count() {
	t := time.NewTicker(window)
	defer t.Stop()
	for last := f.got.Load(); ; {
		select {
		case <-f.end:
			return
		case <-t.C:
		}
		now := f.got.Load()
		f.mu.Lock()
		f.windows = append(f.windows, int(now-last))
		f.mu.Unlock()
		last = now
	}
}

// mark begins a measurement, since ends it.
func (f *flow) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.windows, f.latencies = nil, nil
}

func (f *flow) since() goodput {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := goodput{Windows: len(f.windows)}
	if len(f.windows) == 0 || len(f.latencies) == 0 {
		return g
	}
	sum := 0
	for _, n := range f.windows {
		sum += n
	}
	a := float64(time.Second / window)
	g.Mean = float64(sum) / float64(len(f.windows)) * a
	g.Worst = float64(slices.Min(f.windows)) * a
	slices.Sort(f.latencies)
	g.P99 = f.latencies[len(f.latencies)*99/100]
	return g
}

func (f *flow) stop() {
	close(f.end)
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.wg.Wait()
}

// sendEach sends each client that is away a message, and waits until the broker
// has all of them on its disk.
func sendEach(o *options, address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := greet(c, r, "storm-sender", false); err != nil {
		return err
	}
	const inFlight = 200
	open := 0
	for i := range o.clients {
		topic := fmt.Sprintf("storm/storm-%d", i)
		if _, err := c.Write(publishPacket(topic, 1, uint16(i%60_000+1), []byte("while you were away"))); err != nil {
			return err
		}
		if open++; open < inFlight && i < o.clients-1 {
			continue
		}
		for ; open > 0; open-- {
			if first, _, err := readPacket(r); err != nil || first != 0x40 {
				return fmt.Errorf("PUBACK: %x, %w", first, err)
			}
		}
	}
	_, err = c.Write([]byte{0xE0, 0})
	return err
}
