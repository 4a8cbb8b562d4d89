package coap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

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
