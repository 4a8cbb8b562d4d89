package adapters

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Porch is the way in for a server that is not one of ours, such as net/http's.
// What its listeners accept has come in by the Door, has said something and has
// begun its TLS. Until then it counts among DoorConfig.MaxConnections, and then
// among those that the porch has room for: who finds none waits, and addresses
// take turns. Methods may be called from any goroutine.
type Porch struct {
	door     *Door
	rooms    *places // nil: for as many as come
	width    int
	patience time.Duration
	excuse   func(head [5]byte) string
	log      *slog.Logger

	refused  [refusals]atomic.Uint64
	unopened unopened
}

// NewPorch has room for width connections, 0 for any number. A client has
// patience to say something, and to get through its TLS. excuse says in the
// protocol's words what a client is told that does not speak TLS, by the first
// bytes it said; "" is nothing.
func NewPorch(width int, patience time.Duration, excuse func(head [5]byte) string, log *slog.Logger) *Porch {
	p := &Porch{width: width, patience: patience, excuse: excuse, log: log}
	p.Behind(NewDoor(DefaultDoorConfig()))
	return p
}

// Behind makes clients come in by a door that servers have, too. Called before the
// first Listen.
func (p *Porch) Behind(d *Door) {
	p.door = d
	if p.width > 0 {
		p.rooms = newPlaces(p.width, d.cfg.MaxWaiting, d.cfg.MaxWait)
	}
}

// Refused counts the connections that a limit turned away, by the limit's name.
func (p *Porch) Refused() map[string]uint64 {
	counts := map[string]uint64{}
	for _, r := range []refusal{tooManyInAll, tooManyOfAddress, lineTooLong} {
		counts[r.String()] = p.refused[r].Load()
	}
	return counts
}

// Unopened counts the connections that ended before their protocol began, by
// reason.
func (p *Porch) Unopened() map[string]uint64 { return p.unopened.counts() }

// Waiting is the number of connections for which there is no room.
func (p *Porch) Waiting() int {
	if p.rooms == nil {
		return 0
	}
	return p.rooms.length()
}

// Leave is called once for each connection that was accepted, when it ended or
// somebody else took it over.
func (p *Porch) Leave(c net.Conn) {
	if w := wireOf(c); w != nil && w.stay != nil {
		w.stay.room.give(true)
		p.door.leaveAddress(w.stay.peer)
	}
}

// stay is a connection's time on a porch.
type stay struct {
	peer netip.Addr
	room place
}

// porchway is one listener of a porch.
type porchway struct {
	*Listener
	porch  *Porch
	opened chan net.Conn
	failed chan error
	ended  chan struct{}
	once   sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex
	opening map[net.Conn]struct{} // bare
}

// Listen lets those in who come to l, which the porch closes from then on.
func (p *Porch) Listen(l net.Listener) net.Listener {
	from, ok := l.(*Listener)
	if !ok {
		from = &Listener{Listener: l}
	}
	w := &porchway{Listener: from, porch: p, opened: make(chan net.Conn), failed: make(chan error, 1), ended: make(chan struct{}),
		opening: map[net.Conn]struct{}{}}
	w.wg.Go(w.accept)
	return w
}

// Accept implements net.Listener.
func (w *porchway) Accept() (net.Conn, error) {
	select {
	case c := <-w.opened:
		return c, nil
	case err := <-w.failed:
		return nil, err
	case <-w.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends who has not been accepted.
func (w *porchway) Close() error {
	var err error
	w.once.Do(func() {
		close(w.ended)
		err = w.Listener.Close()
		w.mu.Lock()
		for c := range w.opening { // nobody to say good-bye to
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return err
}

func (w *porchway) closing() bool { return closed(w.ended) }

func (w *porchway) accept() {
	if err := acceptAll(w.Listener, w.porch.log, w.ended, w.arrive); err != nil {
		w.failed <- err
	}
}

// arrive never waits for the client.
func (w *porchway) arrive(bare net.Conn) {
	s := &stay{room: place{of: w.porch.rooms}}
	if !w.Address.Proxy {
		s.peer = peerOf(bare)
	}
	if why := w.porch.door.enter(s.peer); why != notRefused {
		w.porch.refused[why].Add(1)
		// Nobody is told: the peer is over its limit.
		_ = bare.Close()
		return
	}
	w.wg.Go(func() { w.open(bare, s) })
}

// open brings a connection as far as Accept.
func (w *porchway) open(bare net.Conn, s *stay) {
	if w.begin(bare) {
		defer w.begun(bare)
	}
	c, err := w.openedOn(bare, s)
	if err == nil {
		s.room.peer = s.peer
		err = s.room.take(func() <-chan struct{} { return w.ended })
	}
	if err != nil {
		w.turnAway(bare, s, err)
		return
	}
	w.porch.door.spare()
	select {
	case w.opened <- c:
	case <-w.ended:
		w.porch.Leave(c)
		_ = bare.Close()
	}
}

func (w *porchway) begin(bare net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing() {
		_ = bare.Close()
		return false
	}
	w.opening[bare] = struct{}{}
	return true
}

func (w *porchway) begun(bare net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.opening, bare)
}

// turnAway ends a connection that was not opened, and counts it with its reason.
func (w *porchway) turnAway(bare net.Conn, s *stay, err error) {
	switch {
	case w.closing(), errors.Is(err, errOverLimit): // which is counted
	case errors.Is(err, errLineFull), errors.Is(err, errWaitedLong):
		w.porch.refused[lineTooLong].Add(1)
	default:
		w.porch.unopened.count(err)
	}
	w.report(w.porch.log, bare.RemoteAddr(), err)
	_ = bare.Close()
	w.porch.door.leave(s.peer)
}

// openedOn makes of a bare connection what its protocol is spoken on.
func (w *porchway) openedOn(bare net.Conn, s *stay) (net.Conn, error) {
	p := w.porch
	deadline := time.Now().Add(p.patience)
	if err := bare.SetDeadline(deadline); err != nil {
		return nil, err
	}
	on := &wire{Conn: bare, from: w.Listener, stay: s}
	if w.Address.Proxy {
		if err := on.readProxy(); err != nil {
			return nil, err
		}
		if err := w.rename(s, peerOf(on)); err != nil {
			return nil, err
		}
	}
	if w.tls == nil {
		if err := spoken(bare); err != nil {
			return nil, err
		}
		return on, bare.SetDeadline(time.Time{})
	}
	c, _, err := p.door.secured(on, s.peer, deadline, p.patience, w.ended)
	if err != nil {
		p.explain(bare, err)
		return nil, err
	}
	return c, bare.SetDeadline(time.Time{})
}

// rename counts a connection for the peer that its proxy named.
func (w *porchway) rename(s *stay, peer netip.Addr) error {
	if !peer.IsValid() {
		return nil
	}
	if why := w.porch.door.enter(peer); why != notRefused {
		w.porch.refused[why].Add(1)
		return errOverLimit
	}
	w.porch.door.leave(s.peer)
	s.peer = peer
	return nil
}

// spoken waits until a client has said something.
func spoken(bare net.Conn) error {
	raw := rawOf(bare)
	if raw == nil {
		return nil
	}
	return raw.Read(readableNow)
}

// explain tells a client that does not speak TLS.
func (p *Porch) explain(bare net.Conn, err error) {
	var plain tls.RecordHeaderError
	if p.excuse == nil || !errors.As(err, &plain) {
		return
	}
	if text := p.excuse(plain.RecordHeader); text != "" {
		_, _ = bare.Write([]byte(text)) // as far as the socket takes it
	}
}

// secured puts TLS on a wire, with a place for its handshake. The deadline, which
// is set, is later on return when the connection had to wait for that place.
func (d *Door) secured(w *wire, peer netip.Addr, deadline time.Time, patience time.Duration, cancel <-chan struct{}) (*tls.Conn, time.Time, error) {
	bare := w.Conn
	shaking, err := d.shake(bare, peer, deadline, patience, cancel)
	if err != nil {
		return nil, deadline, err
	}
	defer shaking.end()
	w.Conn = shaking
	defer func() { w.Conn = bare }()
	t := tls.Server(w, w.from.tls)
	if err := t.HandshakeContext(context.Background()); err != nil {
		return nil, deadline, err
	}
	return t, shaking.deadline, nil
}
