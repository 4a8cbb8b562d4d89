package coap

import (
	"context"
	"crypto/rand"
	"net/netip"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/adapters"
	"entrepot/core"
)

// leases are the messages that workers have, each for a time.
type leases struct {
	server *Server

	mu      sync.Mutex
	open    map[string]*lease
	workers map[workerKey]*worker
	all     share
	holders map[holder]*share
}

// share is what is on lease, or about to be: of all clients, or of one.
type share struct{ leases, bytes int }

// holder is whom the limits of one client count: a user wherever it is, or all
// that proved nothing at one network address.
type holder struct {
	user string
	peer netip.Addr
}

// holder is who asks.
func (r *request) holder(session *core.Session) holder {
	if user := session.Principal().User; user != "" {
		return holder{user: user}
	}
	return holder{peer: adapters.Peer(r.to.host())}
}

// lease is one message at a worker.
type lease struct {
	id     string
	worker *worker
	of     holder
	bytes  int
	seq    uint64
	timer  *time.Timer
}

type workerKey struct {
	session *core.Session
	queue   string
}

// worker is a session's hold on a queue, as long as it has leases.
type worker struct {
	key      workerKey
	consumer core.Consumer
	refs     int // under leases.mu
}

// Deliver implements core.Receiver; a worker pulls.
func (*worker) Deliver(core.Delivery) core.Verdict { return core.Full }

// hold returns the worker of a queue, with one reference more.
func (l *leases) hold(session *core.Session, queue string) (*worker, error) {
	key := workerKey{session, queue}
	l.mu.Lock()
	w := l.workers[key]
	if w != nil {
		w.refs++
	}
	l.mu.Unlock()
	if w != nil {
		return w, nil
	}
	w = &worker{key: key, refs: 1}
	c, err := session.Consume(context.Background(), core.Named(queue), core.ConsumeOptions{Pull: true}, w)
	if err != nil {
		return nil, err
	}
	w.consumer = c
	l.mu.Lock()
	if other := l.workers[key]; other != nil {
		other.refs++
		l.mu.Unlock()
		c.Cancel(core.Return)
		return other, nil
	}
	l.workers[key] = w
	l.mu.Unlock()
	return w, nil
}

// let gives a reference back; the last one ends the worker.
func (l *leases) let(w *worker) {
	l.mu.Lock()
	w.refs--
	last := w.refs == 0
	if last && l.workers[w.key] == w {
		delete(l.workers, w.key)
	}
	l.mu.Unlock()
	if last {
		w.consumer.Cancel(core.Requeue)
	}
}

// take gives the client the next message and a lease on it.
func (l *leases) take(r *request, session *core.Session, queue string) error {
	values, err := r.queries("lease")
	if err != nil {
		return err
	}
	span, err := l.span(values)
	if err != nil {
		return err
	}
	of := r.holder(session)
	if err := l.begin(of); err != nil {
		return err
	}
	ls, res, err := l.get(r, session, queue, of)
	if err != nil {
		l.mu.Lock()
		l.giveBack(of, 0)
		l.mu.Unlock()
		return err
	}
	l.mu.Lock()
	l.open[ls.id] = ls
	ls.timer = time.AfterFunc(span, func() { l.expire(ls) })
	l.mu.Unlock()
	session.Traffic.CountOut(ls.bytes)
	for _, s := range []string{queueRoot, queue, leaseSegment, ls.id} {
		res.add(message.LocationPath, []byte(s))
	}
	r.respondOnce(res)
	return nil
}

// get takes the message of a lease out of its queue, if it may be on lease to the
// client with what is there already.
func (l *leases) get(r *request, session *core.Session, queue string, of holder) (*lease, *response, error) {
	w, err := l.hold(session, queue)
	if err != nil {
		return nil, nil, err
	}
	d, ok := w.consumer.Get()
	if !ok {
		l.let(w)
		return nil, nil, refuse(codes.NotFound, "nothing waits")
	}
	res := &response{code: codes.Created}
	describe(res, d.Message, time.Now())
	err = r.takes(res)
	if err == nil {
		err = l.carry(of, len(d.Payload))
	}
	if err != nil {
		_ = w.consumer.Settle(nil, core.Return, d.Seq) // another client may
		l.let(w)
		return nil, nil, err
	}
	return &lease{id: rand.Text(), worker: w, of: of, bytes: len(d.Payload), seq: d.Seq}, res, nil
}

// begin counts a lease in. What it refuses may be asked for again when one has
// ended: 4.29 where it is the client's own doing (RFC 8516), else 5.03.
func (l *leases) begin(of holder) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.holders[of]
	switch {
	case own != nil && own.leases >= l.server.cfg.MaxPeerLeases:
		return l.tooMuch(codes.TooManyRequests, "too many leases of one client")
	case l.all.leases >= l.server.cfg.MaxLeases:
		return l.tooMuch(refusedBusy, "too many leases")
	}
	if own == nil {
		own = &share{}
		l.holders[of] = own
	}
	own.leases++
	l.all.leases++
	return nil
}

// carry counts the bytes of a lease that was begun. One message may always be out,
// of a client that has no other.
func (l *leases) carry(of holder, bytes int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, c := l.holders[of], &l.server.cfg
	switch {
	case own.bytes > 0 && own.bytes+bytes > c.MaxPeerLeaseBytes:
		return l.tooMuch(codes.TooManyRequests, "too many bytes on lease to one client")
	case l.all.bytes > 0 && l.all.bytes+bytes > c.MaxLeaseBytes:
		return l.tooMuch(refusedBusy, "too many bytes on lease")
	}
	own.bytes += bytes
	l.all.bytes += bytes
	return nil
}

func (l *leases) tooMuch(code codes.Code, text string) error {
	l.server.count(countLeases)
	return &refusal{code: code, text: text, maxAge: seconds(l.server.cfg.Lease)}
}

// giveBack counts a lease out. With mu held.
func (l *leases) giveBack(of holder, bytes int) {
	own := l.holders[of]
	own.leases--
	own.bytes -= bytes
	if own.leases == 0 {
		delete(l.holders, of)
	}
	l.all.leases--
	l.all.bytes -= bytes
}

// forget takes a lease out; what becomes of its message is the caller's. With mu
// held.
func (l *leases) forget(ls *lease) {
	ls.timer.Stop()
	delete(l.open, ls.id)
	l.giveBack(ls.of, ls.bytes)
}

// size is how many leases there are, and the bytes of their messages.
func (l *leases) size() share {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// span is how long a lease is asked for.
func (l *leases) span(values map[string]string) (time.Duration, error) {
	d, ok, err := milliseconds(values, "lease")
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return l.server.cfg.Lease, nil
	case d <= 0 || d > l.server.cfg.MaxLease:
		return 0, refuse(codes.BadRequest, "a lease of 1 ms to %v", l.server.cfg.MaxLease)
	}
	return d, nil
}

// change extends, acknowledges or gives back.
func (l *leases) change(r *request, session *core.Session, queue, id string) error {
	l.mu.Lock()
	ls := l.open[id]
	l.mu.Unlock()
	if ls == nil || ls.worker.key != (workerKey{session, queue}) {
		return refuse(codes.NotFound, "no such lease; it may be over")
	}
	switch r.code {
	case codes.PUT:
		return l.extend(r, ls)
	case codes.DELETE:
		return l.settle(r, ls)
	}
	return refuse(codes.MethodNotAllowed, "PUT or DELETE")
}

func (l *leases) extend(r *request, ls *lease) error {
	values, err := r.queries("lease")
	if err != nil {
		return err
	}
	span, err := l.span(values)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[ls.id] != ls {
		return refuse(codes.NotFound, "the lease is over")
	}
	ls.timer.Reset(span)
	r.answer(&response{code: codes.Changed})
	return nil
}

func (l *leases) settle(r *request, ls *lease) error {
	values, err := r.queries("requeue")
	if err != nil {
		return err
	}
	how := core.Ack
	switch v, ok := values["requeue"]; {
	case ok && (v == "1" || v == "true"):
		how = core.Requeue
	case ok && v != "0" && v != "false":
		return refuse(codes.BadRequest, "requeue is 0 or 1")
	}
	if !l.end(ls, how) {
		return refuse(codes.NotFound, "the lease is over")
	}
	r.answer(&response{code: codes.Deleted})
	return nil
}

func (l *leases) expire(ls *lease) { l.end(ls, core.Requeue) }

// end settles a lease; false when it was over.
func (l *leases) end(ls *lease, how core.Outcome) bool {
	l.mu.Lock()
	if l.open[ls.id] != ls {
		l.mu.Unlock()
		return false
	}
	l.forget(ls)
	l.mu.Unlock()
	err := ls.worker.consumer.Settle(nil, how, ls.seq)
	l.let(ls.worker)
	return err == nil
}

// leave forgets those of a session, whose end gives the messages back.
func (l *leases) leave(session *core.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ls := range l.open {
		if ls.worker.key.session == session {
			l.forget(ls)
		}
	}
	for key := range l.workers {
		if key.session == session {
			delete(l.workers, key)
		}
	}
}

// close forgets all; the session's end gives the messages back.
func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ls := range l.open {
		l.forget(ls)
	}
}
