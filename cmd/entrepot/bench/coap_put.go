package bench

import (
	"context"
	"fmt"
	"net"
	"time"
)

// startPuts starts clients that each keep so many confirmable PUTs to a
// resource of their own open.
func (c *coapRun) startPuts(ctx context.Context) error {
	for i := range c.o.Publishers {
		p := &putter{run: c, request: coapRequest(coapPut, c.end.resource(i), false, c.o.Size), in: make([]byte, coapDatagram)}
		c.goes("client", i, func() error { return p.work(ctx) })
	}
	return nil
}

// putter is a client of a put run.
type putter struct {
	run     *coapRun
	conn    net.Conn
	request []byte
	in      []byte
	used    int // ids of the socket that it has now
	open    []exchange
}

// exchange is a request without its answer.
type exchange struct {
	id    uint16
	tries int
	begun time.Time
}

// work goes on until the run ends. A socket whose ids are used up is left for
// another one, as ids are not to come again within four minutes.
func (p *putter) work(ctx context.Context) error {
	for !p.run.stop.Load() {
		var err error
		if p.conn, err = p.run.end.datagrams(ctx); err != nil {
			return err
		}
		p.used, p.open = 0, p.open[:0]
		err = p.socket()
		p.conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// socket works on one socket until its ids are used up and nothing is open.
func (p *putter) socket() error {
	for {
		for len(p.open) < p.run.o.Window && p.used < idsOfASocket && !p.run.stop.Load() {
			if err := p.put(); err != nil {
				return err
			}
		}
		if len(p.open) == 0 {
			return nil
		}
		if err := p.hear(); err != nil {
			return err
		}
	}
}

func (p *putter) put() error {
	id := uint16(p.used)
	p.used++
	p.open = append(p.open, exchange{id: id, tries: 1, begun: time.Now()})
	p.run.sent.Add(1)
	return p.send(id)
}

func (p *putter) send(id uint16) error {
	name(p.request, id, uint32(id))
	if _, err := p.conn.Write(p.request); err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	return nil
}

// hear takes one answer, or sends again what has none.
func (p *putter) hear() error {
	p.conn.SetReadDeadline(time.Now().Add(coapAnswerIn))
	n, err := p.conn.Read(p.in)
	if isTimeout(err) {
		return p.again()
	}
	var m coapMessage
	if err == nil {
		err = m.read(p.in[:n])
	}
	if err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	if m.kind == coapConfirmable {
		p.conn.Write(coapEmpty(m.id))
	}
	if m.code == 0 {
		return nil // the answer comes in a message of its own
	}
	for i, x := range p.open {
		if uint32(x.id) != m.token {
			continue
		}
		p.open = append(p.open[:i], p.open[i+1:]...)
		p.run.took(time.Since(x.begun))
		if p.run.delivered.Add(1); !done(m.code) {
			p.run.refused.Add(1)
		}
		return nil
	}
	return nil
}

// again sends what is open once more, and gives up what was sent often enough.
func (p *putter) again() error {
	left := p.open[:0]
	for _, x := range p.open {
		if x.tries == coapTries || p.run.stop.Load() {
			p.run.lost.Add(1)
			continue
		}
		x.tries++
		left = append(left, x)
		p.run.again.Add(1)
		if err := p.send(x.id); err != nil {
			return err
		}
	}
	p.open = left
	return nil
}
