package coap

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// Segments behind a queue's name.
const (
	takeSegment  = "take"
	leaseSegment = "lease"
)

// queue serves /q.
func (s *Server) queue(r *request, rest [][]byte) {
	session, err := r.to.link.identity()
	if err != nil {
		r.fail(err)
		return
	}
	if len(rest) == 0 {
		r.fail(refuse(codes.NotFound, "which queue?"))
		return
	}
	name, err := nameOf(rest[0])
	if err == nil {
		err = s.queueResource(r, session, name, rest[1:])
	}
	if err != nil {
		r.fail(err)
	}
}

// nameOf is a name that is one segment.
func nameOf(segment []byte) (string, error) {
	t, err := topicOf([][]byte{segment})
	if err != nil {
		return "", err
	}
	return t.Levels()[0], nil
}

func (s *Server) queueResource(r *request, session *core.Session, name string, rest [][]byte) error {
	words, _ := texts(rest)
	switch {
	case len(words) == 0 && r.code == codes.POST:
		return s.enqueue(r, session, name)
	case len(words) == 0 && r.code == codes.GET:
		s.later(r, func(r *request) { s.queueState(r, session, name) })
	case len(words) == 0:
		return refuse(codes.MethodNotAllowed, "POST or GET")
	case len(words) == 1 && words[0] == takeSegment && r.code == codes.POST:
		s.later(r, func(r *request) {
			if err := s.leases.take(r, session, name); err != nil {
				r.fail(err)
			}
		})
	case len(words) == 1 && words[0] == takeSegment:
		return refuse(codes.MethodNotAllowed, "POST")
	case len(words) == 2 && words[0] == leaseSegment:
		return s.leases.change(r, session, name, words[1])
	default:
		return refuse(codes.NotFound, "no such resource")
	}
	return nil
}

// enqueue sends to a queue, which is made if it is not there.
func (s *Server) enqueue(r *request, session *core.Session, name string) error {
	to, err := core.QueueAddress(name)
	if err != nil {
		return err
	}
	m, err := r.message(to, false, "delay", "priority")
	if err != nil {
		return err
	}
	key := core.Named(name)
	_, err = session.DeclareQueue(context.Background(), core.QueueSpec{Key: key, Passive: true})
	switch {
	case err == nil:
		session.Publish(nil, m, r.exchange.stored)
	case errors.Is(err, core.ErrNotFound):
		s.later(r, func(r *request) {
			if _, err := session.DeclareQueue(context.Background(), core.QueueSpec{Key: key, Durable: true}); err != nil {
				r.fail(err)
				return
			}
			session.Publish(nil, m, r.exchange.stored)
		})
	default:
		return err
	}
	return nil
}

// stored answers 2.04 when the message is in its queue. It is a core.Done.
func (x *exchange) stored(routed bool, err error) {
	switch {
	case err != nil:
		x.fail(err)
	case !routed:
		x.fail(refuse(codes.NotFound, "the queue is gone"))
	default:
		x.answer(&response{code: codes.Changed})
	}
}

// queueState answers with what a queue has.
func (s *Server) queueState(r *request, session *core.Session, name string) {
	info, err := session.DeclareQueue(context.Background(), core.QueueSpec{Key: core.Named(name), Passive: true})
	if err != nil {
		r.fail(err)
		return
	}
	text, err := json.Marshal(map[string]any{"name": name, "messages": info.Messages, "unsettled": info.Unsettled,
		"bytes": info.Bytes, "consumers": info.Consumers, "dead_letters": info.DeadLetters})
	if err != nil {
		r.fail(err)
		return
	}
	res := &response{code: codes.Content, payload: text}
	res.addFormat(formatJSON)
	r.respond(res)
}

// leases are the messages that workers have, each for a time.
type leases struct {
	server *Server

	mu      sync.Mutex
	open    map[string]*lease
	workers map[workerKey]*worker
}

// lease is one message at a worker.
type lease struct {
	id     string
	worker *worker
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
	l.mu.Lock()
	full := len(l.open) >= l.server.cfg.MaxLeases
	l.mu.Unlock()
	if full {
		return &refusal{code: refusedBusy, text: "too many leases", maxAge: seconds(l.server.cfg.Lease)}
	}
	w, err := l.hold(session, queue)
	if err != nil {
		return err
	}
	d, ok := w.consumer.Get()
	if !ok {
		l.let(w)
		return refuse(codes.NotFound, "nothing waits")
	}
	res := &response{code: codes.Created}
	describe(res, d.Message, time.Now())
	if err := r.takes(res); err != nil {
		_ = w.consumer.Settle(nil, core.Return, d.Seq) // another client may
		l.let(w)
		return err
	}
	ls := &lease{id: rand.Text(), worker: w, seq: d.Seq}
	l.mu.Lock()
	l.open[ls.id] = ls
	ls.timer = time.AfterFunc(span, func() { l.expire(ls) })
	l.mu.Unlock()
	session.Traffic.CountOut(len(d.Payload))
	for _, s := range []string{queueRoot, queue, leaseSegment, ls.id} {
		res.add(message.LocationPath, []byte(s))
	}
	r.respondOnce(res)
	return nil
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
	delete(l.open, ls.id)
	ls.timer.Stop()
	l.mu.Unlock()
	err := ls.worker.consumer.Settle(nil, how, ls.seq)
	l.let(ls.worker)
	return err == nil
}

// leave forgets those of a session, whose end gives the messages back.
func (l *leases) leave(session *core.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, ls := range l.open {
		if ls.worker.key.session == session {
			ls.timer.Stop()
			delete(l.open, id)
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
	for id, ls := range l.open {
		ls.timer.Stop()
		delete(l.open, id)
	}
}

// milliseconds reads a time from a query.
func milliseconds(values map[string]string, name string) (time.Duration, bool, error) {
	v, ok := values[name]
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n > uint64(math.MaxInt64/time.Millisecond) {
		return 0, false, refuse(codes.BadRequest, "%s is a number of milliseconds", name)
	}
	return time.Duration(n) * time.Millisecond, true, nil
}

// exchange serves /x.
func (s *Server) exchange(r *request, rest [][]byte) {
	if err := s.publishTo(r, rest); err != nil {
		r.fail(err)
	}
}

func (s *Server) publishTo(r *request, rest [][]byte) error {
	session, err := r.to.link.identity()
	switch {
	case err != nil:
		return err
	case len(rest) == 0 || len(rest[0]) == 0:
		return refuse(codes.NotFound, "which exchange?")
	case r.code != codes.POST:
		return refuse(codes.MethodNotAllowed, "POST")
	}
	name, err := nameOf(rest[0])
	if err != nil {
		return err
	}
	key := rest[1:]
	if len(key) == 0 {
		key = [][]byte{nil} // no key is an empty one
	}
	t, err := topicOf(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	m, err := r.message(core.Address{Exchange: name, Topic: t}, false, "delay", "priority")
	if err != nil {
		return err
	}
	session.Publish(nil, m, r.exchange.published(codes.Changed))
	return nil
}
