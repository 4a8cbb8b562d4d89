package coap

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// protocol is this front-end's name in logs, figures and origins.
const protocol = "coap"

// counter names what the server counts.
type counter int

const (
	countUnsent     counter = iota // confirmable messages that had no room to wait
	countUnheard                   // confirmable messages that nobody acknowledged
	countAgain                     // retransmissions
	countLost                      // observers that were dropped
	countMalformed                 // datagrams that were no CoAP, or malformed
	countDuplicate                 // requests that came again
	countBusy                      // requests that found too many others waiting
	countChallenge                 // clients that were asked for an Echo
	countMoved                     // DTLS clients that went on from another address
	countTurnedAway                // DTLS clients that a limit turned away
	countHurried                   // publishes beyond a client's rate
	countLeases                    // leases that a limit refused
	countHeldUp                    // streams that were not read while their requests waited
	countPutOut                    // DTLS clients that had to make room
	countPutOff                    // DTLS handshakes from where too many failed
	counters
)

// Server serves CoAP clients on any number of sockets. Its methods may be called
// from any goroutine.
type Server struct {
	cfg       Config
	broker    *core.Broker
	log       *slog.Logger
	seed      maphash.Seed
	began     time.Time
	ids       *ids
	bufs      buffers
	echo      *echoes
	uploads   *assemblies
	pages     *pages // answers that are made once
	lists     *pages // lists of links
	leases    *leases
	callees   *callees
	shelf     *shelf
	documents documents
	fan       fan

	streams   *adapters.Server
	receivers receivers
	shortage  shortage

	subscribers subscribers
	psks        atomic.Pointer[psks]
	crowd       *crowd
	failed      failed

	counts    [counters]atomic.Uint64
	queues    atomic.Uint64 // names of observers' queues
	endpoints atomic.Uint32 // numbers of sockets
	observers atomic.Int64
	waiting   atomic.Int64 // requests that run aside

	anonymous anonymous
	rates     *rates

	conditional sync.Mutex // held by a request from its condition to its publish

	watching sync.Mutex
	watches  map[watchKey]*watch
	queued   map[core.QueueKey]*watch // by their queues, those of filters too

	mu      sync.Mutex
	peers   map[route]*peer
	sockets map[net.PacketConn]struct{}
	secure  []*dtlsSocket
	stopped bool
	stop    chan struct{}
	wg      sync.WaitGroup
}

// New returns a server whose clients live in the first of realms. cfg must be
// valid.
func New(cfg Config, realms *core.Realms, log *slog.Logger) *Server {
	broker, _ := realms.Broker("")
	s := &Server{
		cfg: cfg, broker: broker, log: log.With("protocol", protocol), seed: maphash.MakeSeed(),
		began: time.Now(), ids: newIDs(cfg.exchangeLifetime(), cfg.MaxMessageIDs),
		pages:   &pages{open: map[transfer]*page{}, most: 1000, room: maxAnswerBytes},
		lists:   &pages{open: map[transfer]*page{}, most: 1000, room: maxListBytes},
		watches: map[watchKey]*watch{}, queued: map[core.QueueKey]*watch{}, peers: map[route]*peer{}, sockets: map[net.PacketConn]struct{}{},
		stop: make(chan struct{}),
	}
	s.anonymous.server, s.receivers.server = s, s
	s.streams = adapters.NewServer(cfg.Limits, protocol, log, func(c *adapters.Conn) adapters.Protocol { return newConn(s, c) })
	s.crowd = newCrowd(cfg.Limits.LoginTimeout, cfg.DTLSQuiet)
	s.echo = newEchoes(s)
	s.rates = newRates(broker, maxMetered)
	s.leases = &leases{server: s, open: map[string]*lease{}, workers: map[workerKey]*worker{}, holders: map[holder]*share{}}
	s.callees = &callees{server: s, all: map[route][]*callee{}, open: map[string]*invocation{}, byCall: map[*core.Invocation]string{}}
	s.shelf = &shelf{server: s, all: map[routing.Topic]*entry{}}
	s.uploads = &assemblies{server: s, open: map[transfer]*assembly{}, peers: map[route]int{}}
	s.shortage.watch(broker)
	s.wg.Go(s.sweep)
	return s
}

// sweepEvery is how often it is looked for what is over.
const sweepEvery = 15 * time.Second

// sweep forgets what is over, now and then.
func (s *Server) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case now := <-t.C:
			s.ids.sweep(now)
			s.echo.sweep(now)
			s.rates.sweep()
			s.checkObservers(now)
			for _, k := range s.secured() {
				k.sweep(now)
			}
		}
	}
}

// checkObservers sends the newest value again, confirmably, to those who may have
// missed it a minute ago, and to those that nothing was heard from for long.
func (s *Server) checkObservers(now time.Time) {
	for _, p := range s.everyPeer() {
		if p.stream != nil { // it misses nothing
			continue
		}
		p.mu.Lock()
		for _, o := range p.observers {
			quiet := now.Sub(o.confirmed) + sweepEvery
			if !o.dirty && !o.held && (o.unsure() && quiet >= confirmWithin || quiet >= s.checkTime(o.watch.topic)) {
				o.watch.again(o)
				p.markLocked(o, now)
			}
		}
		p.mu.Unlock()
	}
}

func (s *Server) everyPeer() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*peer, 0, len(s.peers))
	for _, p := range s.peers {
		all = append(all, p)
	}
	return all
}

// Serve answers datagrams that come in on c until Shutdown, which closes it. It
// returns at once; the error says that the server is shut down already, and c
// is the caller's then.
func (s *Server) Serve(c net.PacketConn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return fmt.Errorf("%s server: %w", protocol, net.ErrClosed)
	}
	s.sockets[c] = struct{}{}
	k := newSocket(s, c)
	s.wg.Go(k.read)
	return nil
}

func (s *Server) secured() []*dtlsSocket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secure
}

// Read reads the file of keys; before the first call there are none. Handshakes
// from apply on see it.
func (s *Server) Read() (apply func(), err error) {
	if s.cfg.PSKFile == "" {
		return func() {}, nil
	}
	keys, err := readPSKs(s.cfg.PSKFile)
	if err != nil {
		return nil, fmt.Errorf("coap: %w", err)
	}
	return func() { s.psks.Store(keys) }, nil
}

// ServeStream accepts connections from l, TCP or TLS, until Shutdown, which
// closes it. It returns at once, as Serve.
func (s *Server) ServeStream(l net.Listener) error { return s.streams.Serve(l) }

// ServeConn takes over a connection from elsewhere: a pipe.
func (s *Server) ServeConn(c net.Conn) { s.streams.ServeConn(c) }

// Behind makes clients on streams and over DTLS come in by a door that other servers
// have, too. Called before the first connection.
func (s *Server) Behind(d *adapters.Door) { s.streams.Behind(d) }

// Unopened counts the connections that ended before the protocol began, by reason.
func (s *Server) Unopened() map[string]uint64 {
	counts := s.streams.Unopened()
	s.failed.addTo(counts)
	return counts
}

// Refused counts the connections and requests that a limit turned away, by the
// limit's name.
func (s *Server) Refused() map[string]uint64 {
	counts := s.streams.Refused()
	counts["max_waiting"] = s.counts[countBusy].Load() + s.counts[countUnsent].Load()
	return counts
}

// Told counts what went wrong, by a word for each.
func (s *Server) Told() map[string]uint64 {
	names := [counters]string{"unsent", "unheard", "retransmitted", "observer_lost", "malformed", "duplicate", "busy", "echo", "moved", "turned_away", "hurried", "lease_refused", "held_up", "put_out", "put_off"}
	told := map[string]uint64{}
	for i, name := range names {
		told[name] = s.counts[i].Load()
	}
	return told
}

// Kept counts what the server has in memory, by a word for each.
func (s *Server) Kept() map[string]uint64 {
	s.mu.Lock()
	peers := len(s.peers)
	s.mu.Unlock()
	known, answers := s.ids.size()
	leased := s.leases.size()
	return map[string]uint64{"message_ids": uint64(known), "answer_bytes": uint64(answers),
		"associations": uint64(s.crowd.size()), "leases": uint64(leased.leases), "lease_bytes": uint64(leased.bytes),
		"observers": uint64(s.observers.Load()), "peers": uint64(peers), "rates": uint64(s.rates.size())}
}

func (s *Server) count(c counter) { s.counts[c].Add(1) }

// clock numbers values: milliseconds since the start, so that a watch that is
// made again does not go back.
func (s *Server) clock() uint64 { return uint64(time.Since(s.began).Milliseconds()) + 1 }

func (s *Server) maxMessage() int { return s.broker.MaxMessage() }

// etag is a message's ETag: a hash of what an answer with it holds.
func (s *Server) etag(m *core.Message) []byte {
	n := maphash.Bytes(s.seed, m.Payload)
	if m.Props != nil {
		n = n*31 + maphash.String(s.seed, m.Props.ContentType+"\x00"+m.Props.ContentEncoding)
	}
	return uint64Bytes(n)
}

// aside runs what may block on a goroutine of its own; Shutdown waits for it.
func (s *Server) aside(f func()) { s.wg.Go(f) }

// later lets a request go on aside, unless too many do.
func (s *Server) later(r *request, f func(*request)) {
	if s.waiting.Add(1) > int64(s.cfg.MaxWaiting) {
		s.waiting.Add(-1)
		s.count(countBusy)
		r.fail(&refusal{code: refusedBusy, text: "too many requests at once", maxAge: 5})
		return
	}
	c := r.detach()
	s.aside(func() {
		defer s.waiting.Add(-1)
		f(c)
	})
}

func (s *Server) sendEmpty(to route, kind message.Type, id uint16) {
	buf := s.bufs.get()
	buf.b = appendEmpty(buf.b, kind, id)
	to.write(buf.b)
	s.bufs.put(buf)
}

// Shutdown stops reading, ends all observations and waits for what is under
// way, or for ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.stopped = true
	close(s.stop)
	sockets := s.sockets
	s.sockets = map[net.PacketConn]struct{}{}
	s.mu.Unlock()
	for c := range sockets {
		// Nothing is in it any more.
		defer c.Close()
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
	s.shortage.stop()
	for _, k := range s.secured() {
		k.shut()
	}
	err := s.streams.Shutdown(ctx)
	for _, to := range s.callees.everywhere() {
		s.callees.leave(to)
	}
	for _, p := range s.everyPeer() {
		p.leave()
	}
	s.uploads.close()
	s.leases.close()
	s.shelf.close()
	s.pages.close()
	s.lists.close()
	done := make(chan struct{})
	go func() {
		s.fan.wg.Wait()
		s.wg.Wait()
		s.anonymous.close()
		close(done)
	}()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: requests left: %w", protocol, ctx.Err())
	}
}

// anonymous is the session of all clients that proved nothing: an address is no
// name. It is opened by the first of them.
type anonymous struct {
	server *Server

	mu      sync.Mutex
	session *core.Session
}

// get returns the session; ErrNotAllowed when clients have to log in.
func (a *anonymous) get() (*core.Session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session != nil {
		return a.session, nil
	}
	who, err := a.server.broker.Authenticate(context.Background(), auth.Credentials{Protocol: protocol})
	if err != nil {
		return nil, refuse(refusedUnknown, "clients have to log in")
	}
	a.session, _, err = a.server.broker.Connect(context.Background(), core.Hello{Protocol: protocol, Principal: who,
		ClientID: who.ClientID, Kick: a.kicked, Withdrawn: a.server.withdrawn})
	return a.session, err
}

func (a *anonymous) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session != nil {
		a.session.Close(core.CloseShutdown)
	}
}
