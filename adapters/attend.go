package adapters

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// attend waits, before log-in, until the client has said something, and then for
// a place to work on that. Meanwhile the connection holds no buffer.
func (c *Conn) attend() error {
	if c.secure == nil || c.secure.drained {
		if err := c.raw.Read(readableNow); err != nil {
			return err
		}
	}
	return c.takePlace()
}

// takePlace waits for a place to work for a client that is not in. The time that
// it has to log in does not run meanwhile.
func (c *Conn) takePlace() error {
	waited := false
	waits := func() <-chan struct{} {
		waited = true
		c.Wheel().Stop(&c.alarm)
		kick := c.Outbox.nextUnblock()
		if c.kicked.Load() != nil {
			done := make(chan struct{})
			close(done)
			return done
		}
		return kick
	}
	err := c.place.take(waits)
	for errors.Is(err, ErrKicked) && c.kicked.Load() == nil { // there is room in the outbox
		err = c.place.take(waits)
	}
	if waited && err == nil && !c.loggedIn {
		c.Wheel().Set(&c.alarm, c.server.cfg.LoginTimeout, c.timeout)
	}
	return c.server.notTaken(err)
}

// notTaken counts who got no place.
func (s *Server) notTaken(err error) error {
	if errors.Is(err, errLineFull) || errors.Is(err, errWaitedLong) {
		s.refused[lineTooLong].Add(1)
	}
	return err
}

// Rest gives the client's place to others while it is not to be served. It ends
// after d, or by Kick, then with an error. Called from Feed before log-in, with
// the batch flushed.
func (c *Conn) Rest(d time.Duration) error {
	c.place.give(false)
	c.Wheel().Stop(&c.alarm)
	t := time.NewTimer(d)
	defer t.Stop()
	for waits := true; waits; {
		kick := c.Outbox.nextUnblock()
		if c.kicked.Load() != nil {
			return ErrKicked
		}
		select {
		case <-kick: // or there is room in the outbox
		case <-t.C:
			waits = false
		}
	}
	c.Wheel().Set(&c.alarm, c.server.cfg.LoginTimeout, c.timeout)
	return c.takePlace()
}

// shaking is a bare connection while TLS begins on it. Its handshake has a place
// whenever it is at work, and none while it waits for the client.
type shaking struct {
	net.Conn
	place    place
	deadline time.Time     // of the connection
	patience time.Duration // for a deadline after a wait for a place
	cancel   <-chan struct{}
	fresh    bool // the place was taken for what can be read already
	over     bool
}

// shake waits until the client has said something and there is a place for its
// handshake; nothing is kept of the connection meanwhile but itself. The TLS
// goes on what it returns, and the caller calls end when that has begun, or
// failed. The deadline is set; after each wait for a place it is patience away.
func (d *Door) shake(bare net.Conn, peer netip.Addr, deadline time.Time, patience time.Duration, cancel <-chan struct{}) (*shaking, error) {
	s := &shaking{Conn: bare, place: place{of: d.handshakes, peer: peer},
		deadline: deadline, patience: patience, cancel: cancel}
	raw := rawOf(bare)
	if raw == nil {
		return s, nil
	}
	if err := raw.Read(readableNow); err != nil {
		return nil, err
	}
	s.fresh = true
	return s, s.take()
}

func (s *shaking) take() error {
	waited := false
	err := s.place.take(func() <-chan struct{} {
		waited = true
		return s.cancel
	})
	if waited && err == nil {
		s.deadline = time.Now().Add(s.patience)
		err = s.Conn.SetDeadline(s.deadline)
	}
	if err != nil {
		s.place.give(true)
		return fmt.Errorf("TLS handshake: %w", err)
	}
	return nil
}

// Read implements net.Conn.
func (s *shaking) Read(p []byte) (int, error) {
	if s.over {
		return s.Conn.Read(p)
	}
	if !s.fresh {
		s.place.give(false)
	}
	s.fresh = false
	n, err := s.Conn.Read(p)
	if err == nil {
		err = s.take()
	}
	return n, err
}

// end is called when the handshake is over, whatever came of it.
func (s *shaking) end() {
	s.over = true
	s.place.give(true)
}
