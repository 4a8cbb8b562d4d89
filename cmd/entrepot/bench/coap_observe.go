package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// startObservation starts, for each publisher, a resource with observers of its
// own. A publisher puts the next value when all of them have the last one, so
// that none is left out as superseded.
func (c *coapRun) startObservation(ctx context.Context) error {
	for i := range c.o.Publishers {
		w := &watched{run: c, path: c.end.resource(i), told: make(chan struct{}, 1)}
		if err := w.open(ctx); err != nil {
			w.close()
			return fmt.Errorf("resource %d: %w", i, err)
		}
		for j, conn := range w.observers {
			c.goes("observer", j, func() error { return w.hear(conn) })
		}
		c.goes("publisher", i, func() error {
			defer w.close()
			return w.publish(ctx)
		})
	}
	return nil
}

// watched is a resource that is observed.
type watched struct {
	run       *coapRun
	path      []string
	publisher net.Conn
	observers []net.Conn
	number    atomic.Uint64 // of the newest value
	left      atomic.Int64  // observers that have not got it
	told      chan struct{} // all have
}

// open puts a first value and registers the observers.
func (w *watched) open(ctx context.Context) error {
	in := make([]byte, coapDatagram)
	var err error
	if w.publisher, err = w.run.end.datagrams(ctx); err != nil {
		return err
	}
	var m coapMessage
	first := w.value(0)
	if _, err = ask(w.publisher, first, &m, in); err != nil {
		return err
	}
	if !done(m.code) {
		return fmt.Errorf("PUT: %s", says(m.code))
	}
	for i := range w.run.o.Subscribers {
		conn, err := w.run.end.datagrams(ctx)
		if err != nil {
			return err
		}
		w.observers = append(w.observers, conn)
		get := coapRequest(coapGet, w.path, true, 0)
		name(get, 1, uint32(i+1))
		if _, err := ask(conn, get, &m, in); err != nil {
			return err
		}
		if m.code != coapContent || !m.observed {
			return fmt.Errorf("observer %d: %s, Observe %v", i, says(m.code), m.observed)
		}
	}
	return nil
}

// value is the PUT of the n-th value.
func (w *watched) value(n uint64) []byte {
	b := coapRequest(coapPut, w.path, false, w.run.o.Size)
	name(b, uint16(n), uint32(n))
	binary.BigEndian.PutUint64(b[len(b)-w.run.o.Size:], n)
	return b
}

// publish goes on until the run ends.
func (w *watched) publish(ctx context.Context) error {
	in := make([]byte, coapDatagram)
	var m coapMessage
	request := w.value(0)
	stall := time.NewTimer(w.run.o.Stall)
	defer stall.Stop()
	for used := 1; !w.run.stop.Load(); used++ {
		if used == idsOfASocket {
			w.publisher.Close()
			var err error
			if w.publisher, err = w.run.end.datagrams(ctx); err != nil {
				return err
			}
			used = 0
		}
		n := w.number.Load() + 1
		name(request, uint16(used), uint32(used))
		binary.BigEndian.PutUint64(request[len(request)-w.run.o.Size:], n)
		w.left.Store(int64(len(w.observers)))
		w.number.Store(n)
		w.run.sent.Add(1)
		begun := time.Now()
		tries, err := ask(w.publisher, request, &m, in)
		w.run.again.Add(uint64(tries - 1))
		if err != nil && !errors.Is(err, errUnanswered) {
			return err
		}
		if err != nil || !done(m.code) {
			w.run.refused.Add(1)
		}
		stall.Reset(w.run.o.Stall)
		select {
		case <-w.told:
			w.run.took(time.Since(begun))
		case <-stall.C:
			w.run.lost.Add(uint64(max(0, w.left.Swap(0))))
		}
	}
	return nil
}

// hear takes notifications until the run ends, and acknowledges those that ask
// for it.
func (w *watched) hear(conn net.Conn) error {
	in := make([]byte, coapDatagram)
	last := uint64(0)
	for !w.run.stop.Load() {
		conn.SetReadDeadline(time.Now().Add(time.Second))
		n, err := conn.Read(in)
		if isTimeout(err) {
			continue
		}
		var m coapMessage
		if err == nil {
			err = m.read(in[:n])
		}
		if err != nil && w.run.stop.Load() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("connection: %w", err)
		}
		if m.kind == coapConfirmable {
			conn.Write(coapEmpty(m.id))
		}
		if m.code != coapContent || len(m.payload) < 8 {
			return fmt.Errorf("a notification of %s with %d bytes", says(m.code), len(m.payload))
		}
		w.run.delivered.Add(1)
		if v := binary.BigEndian.Uint64(m.payload); v > last && v == w.number.Load() {
			last = v
			if w.left.Add(-1) == 0 {
				w.told <- struct{}{}
			}
		}
	}
	return nil
}

func (w *watched) close() {
	for _, conn := range append(w.observers, w.publisher) {
		if conn != nil {
			conn.Close()
		}
	}
}
