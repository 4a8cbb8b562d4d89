package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleDialers   = 64     // connections that are opened at a time
	portsASource  = 20_000 // connections that one source address is good for
	idleBuffer    = 512
	idleProbeTime = 20 * time.Second
)

// idleRun opens connections that do nothing, reads the broker's memory before
// and after, and at last sends each a message to see that it still listens.
func idleRun(ctx context.Context, o *Options, subscribe, publish endpoint, run uint32) (Result, error) {
	broker, err := watch(o.PIDs, o.Children)
	if err != nil {
		return Result{}, fmt.Errorf("option pid: %w", err)
	}
	r := Result{RSSBefore: broker.resident()}
	c := crowd{o: o, end: subscribe, run: run, subscribers: make([]*subscriber, o.Connections)}
	defer c.close()
	began := time.Now()
	if err := c.open(ctx); err != nil {
		return r, err
	}
	if err := rest(ctx, o.Settle); err != nil {
		return r, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Connections = o.Connections
	r.RSSAfter = broker.resident()
	r.RSSConnection = float64(r.RSSAfter-r.RSSBefore) / float64(o.Connections)
	r.Sent = uint64(o.Connections)
	err = c.probe(ctx, publish)
	r.Answered = c.answered()
	r.Delivered = uint64(r.Answered)
	r.Lost = r.Sent - r.Delivered
	return r, err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// crowd is the connections of an idle run. They have no goroutines while they
// rest.
type crowd struct {
	o           *Options
	end         endpoint
	run         uint32
	subscribers []*subscriber
}

// each calls do for all connections, several at a time, and returns the first
// error.
func (c *crowd) each(ctx context.Context, do func(i int) error) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range idleDialers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(c.subscribers) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					once.Do(func() { first = fmt.Errorf("connection %d: %w", i, err) })
					cancel()
				}
			}
		})
	}
	group.Wait()
	if first == nil {
		return ctx.Err()
	}
	return first
}

// open connects and subscribes all.
func (c *crowd) open(ctx context.Context) error {
	sources := c.o.Sources
	if sources == 0 && c.end.loopback() && len(c.subscribers) > portsASource {
		sources = len(c.subscribers)/portsASource + 1
	}
	d := c.end.speaks(c.o)
	return c.each(ctx, func(i int) error {
		source := 0
		if sources > 1 {
			source = 1 + i%sources
		}
		l, err := c.end.open(ctx, d, clientID(c.run, "i", i), source, idleBuffer)
		if err != nil {
			return err
		}
		c.subscribers[i] = newSubscriber(l, c.run, 0, 1)
		return d.subscribe(c.subscribers[i], c.o.nameOf(i))
	})
}

// probe sends one message to each connection and reads it there.
func (c *crowd) probe(ctx context.Context, publish endpoint) error {
	d := publish.speaks(c.o)
	l, err := publish.open(ctx, d, clientID(c.run, "p", 0), 0, 4096)
	if err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	defer l.close()
	go l.pump(d.answers(l, &answers{progress: newProgress()})) // ends when l is closed
	hear := c.end.speaks(c.o)
	for at := 0; at < len(c.subscribers); at += idleDialers {
		for i := at; i < min(at+idleDialers, len(c.subscribers)); i++ {
			b := newBlock(d.frame(c.o.nameOf(i), c.o.Size), 1, 0, c.run)
			if _, err := l.conn.Write(b.number(uint64(i), 1)); err != nil {
				return fmt.Errorf("publisher: %w", closedAs(err))
			}
		}
	}
	until := time.Now().Add(idleProbeTime)
	return c.each(ctx, func(i int) error {
		s := c.subscribers[i]
		s.link.conn.SetReadDeadline(until)
		scan := hear.deliveries(s)
		err := s.link.pump(func(b []byte) (int, error) {
			n, err := scan(b)
			if err == nil && s.flows[0].got > 0 {
				err = errAnswered
			}
			return n, err
		})
		if errors.Is(err, errAnswered) {
			return nil
		}
		return err
	})
}

// errAnswered ends a probe that went well.
var errAnswered = errors.New("answered")

func (c *crowd) answered() (n int) {
	for _, s := range c.subscribers {
		if s != nil && s.flows[0].got > 0 {
			n++
		}
	}
	return n
}

func (c *crowd) close() {
	for _, s := range c.subscribers {
		if s != nil {
			s.link.close()
		}
	}
}
