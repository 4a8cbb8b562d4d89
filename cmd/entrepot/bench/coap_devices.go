package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// startDevices starts devices, each with a socket and a resource of its own,
// that put a value now and then, spread over that time.
func (c *coapRun) startDevices(ctx context.Context) error {
	var all []*device
	for i := range c.o.Publishers {
		conn, err := c.end.datagrams(ctx)
		if err != nil {
			for _, d := range all {
				d.conn.Close()
			}
			return fmt.Errorf("device %d: %w", i, err)
		}
		all = append(all, &device{run: c, conn: conn, request: coapRequest(coapPut, c.end.resource(i), false, c.o.Size)})
	}
	begun := time.Now()
	for i, d := range all {
		first := begun.Add(c.o.Every * time.Duration(i) / time.Duration(c.o.Publishers))
		c.goes("device", i, func() error {
			defer d.conn.Close()
			return d.work(first)
		})
	}
	return nil
}

// device is a client that is not in a hurry.
type device struct {
	run     *coapRun
	conn    net.Conn
	request []byte
	used    uint16
}

// work puts values until the run ends; what had no answer is lost.
func (d *device) work(next time.Time) error {
	in := make([]byte, 128)
	var m coapMessage
	for {
		time.Sleep(time.Until(next))
		if d.run.stop.Load() {
			return nil
		}
		d.used++
		name(d.request, d.used, uint32(d.used))
		d.run.sent.Add(1)
		begun := time.Now()
		tries, err := ask(d.conn, d.request, &m, in)
		d.run.again.Add(uint64(tries - 1))
		switch {
		case errors.Is(err, errUnanswered):
			d.run.lost.Add(1)
		case err != nil:
			return err
		default:
			d.run.took(time.Since(begun))
			if d.run.delivered.Add(1); !done(m.code) {
				d.run.refused.Add(1)
			}
		}
		next = next.Add(d.run.o.Every)
	}
}
