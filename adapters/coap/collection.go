package coap

import (
	"bytes"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

func subscribeTo(t routing.Topic) (auth.Action, auth.Object) {
	return auth.Subscribe, auth.Object{Kind: auth.Topic, Name: t.String()}
}

// collection serves /ps: the topic collection and its topics.
func (s *Server) collection(r *request, rest [][]byte) {
	session, err := r.to.link.identity()
	if err != nil {
		r.fail(err)
		return
	}
	if r.code == codes.GET && r.sent() {
		return
	}
	s.later(r, func(r *request) {
		var err error
		switch _, rest := r.root(); {
		case len(rest) == 0 || len(rest) == 1 && len(rest[0]) == 0:
			err = s.collectionResource(r, session)
		case len(rest) == 1:
			err = s.topicResource(r, session, rest[0])
		default:
			err = refuse(codes.NotFound, "no such resource")
		}
		if err != nil {
			r.fail(err)
		}
	})
}

func (s *Server) collectionResource(r *request, session *core.Session) error {
	switch r.code {
	case codes.GET:
		query, err := r.links()
		if err != nil {
			return err
		}
		s.documents.Lock()
		defer s.documents.Unlock()
		d := &document{query: query}
		s.shelf.each(session, func(e *entry) bool {
			if wantsData(query) {
				return d.add(e.dataLink())
			}
			return d.add(e.link())
		})
		d.send(r)
		return nil
	case codes.FETCH:
		want, err := r.properties(formatTopic)
		if err != nil {
			return err
		}
		s.documents.Lock()
		defer s.documents.Unlock()
		d := &document{}
		s.shelf.each(session, func(e *entry) bool { return !e.config.has(want) || d.add(e.link()) })
		d.send(r)
		return nil
	case codes.POST:
		return s.create(r, session)
	}
	return refuse(codes.MethodNotAllowed, "GET, FETCH or POST")
}

// wantsData: the query asks for the resources that are published to.
func wantsData(q linkQuery) bool {
	for _, part := range q {
		if part.name == "rt" && fitsValue(part.value, typeData) && !fitsValue(part.value, typeTopic) {
			return true
		}
	}
	return false
}

// create makes a topic.
func (s *Server) create(r *request, session *core.Session) error {
	if err := r.wants(formatTopic); err != nil {
		return err // before anything is made
	}
	given, err := r.properties(formatTopic)
	if err != nil {
		return err
	}
	t, err := given.topic()
	if err != nil {
		return err
	}
	if err := session.Allowed(auth.Declare, auth.Object{Kind: auth.Topic, Name: t.String()}); err != nil {
		return err
	}
	// Who may not read is not told whether the name is in use.
	if session.Allowed(subscribeTo(t)) != nil {
		return refuse(codes.Forbidden, "who makes a topic has to be allowed to subscribe to it")
	}
	c, err := given.newConfig(t)
	if err != nil {
		return err
	}
	switch had, err := session.Retained(t); {
	case err != nil:
		return err
	case had != nil:
		return refuse(codes.BadRequest, "the name is in use")
	}
	if err := s.shelf.put(t, c, true); err != nil {
		return err
	}
	res := &response{code: codes.Created, payload: c.encode()}
	res.add(message.LocationPath, []byte(collectionRoot))
	res.add(message.LocationPath, []byte(c.name))
	res.addFormat(formatTopic)
	initial, ok := given[keyInitialize].([]byte)
	if !ok {
		r.respondOnce(res)
		return nil
	}
	m := &core.Message{Exchange: core.TopicExchange, Topic: t, Payload: bytes.Clone(initial), Retain: true, Guarantee: core.Durable,
		Props: &core.Properties{}}
	m.Props.ContentType, m.Props.ContentEncoding = contentTypeOf(c.format)
	session.Publish(nil, m, func(_ bool, err error) {
		if err != nil {
			s.shelf.remove(t)
			r.fail(err)
			return
		}
		r.respondOnce(res)
	})
	return nil
}

// topicResource serves a topic's configuration.
func (s *Server) topicResource(r *request, session *core.Session, name []byte) error {
	t, err := routing.ParseTopic(string(name))
	if err != nil {
		return refuse(codes.NotFound, "no such topic")
	}
	e, err := s.shelf.one(session, t)
	if err != nil {
		return err
	}
	switch r.code {
	case codes.GET:
		s.tell(r, codes.Content, e.config.encode())
	case codes.FETCH:
		return s.tellSome(r, e)
	case codes.POST, codes.IPATCH:
		if err := r.wants(formatTopic); err != nil {
			return err
		}
		return s.change(r, session, e)
	case codes.DELETE:
		if err := session.Allowed(auth.Declare, auth.Object{Kind: auth.Topic, Name: t.String()}); err != nil {
			return err
		}
		s.deleteTopic(session, t, func(err error) {
			if err != nil {
				r.fail(err)
				return
			}
			r.answer(&response{code: codes.Deleted})
		})
	default:
		return refuse(codes.MethodNotAllowed, "GET, FETCH, POST, iPATCH or DELETE")
	}
	return nil
}

func (s *Server) tell(r *request, code codes.Code, text []byte) {
	res := &response{code: code, payload: text}
	res.addFormat(formatTopic)
	r.respondOnce(res)
}

// tellSome answers a FETCH: the properties that were asked for and are there.
func (s *Server) tellSome(r *request, e *entry) error {
	if r.format != formatCBOR {
		return refuse(codes.UnsupportedMediaType, "content format %d", formatCBOR)
	}
	keys, err := decodeKeys(r.payload)
	if err != nil {
		return err
	}
	s.tell(r, codes.Content, e.config.encode(keys...))
	return nil
}

// change replaces or patches a configuration; what is immutable may be given as
// it is.
func (s *Server) change(r *request, session *core.Session, e *entry) error {
	if err := session.Allowed(auth.Declare, auth.Object{Kind: auth.Topic, Name: e.topic.String()}); err != nil {
		return err
	}
	given, err := r.properties(formatTopic)
	if err != nil {
		return err
	}
	if s.shelf.find(e.topic) == nil {
		return refuse(codes.Forbidden, "the topic was not made here")
	}
	was := e.config
	if r.code == codes.POST {
		was = topicConfig{name: was.name, data: was.data, kind: was.kind, format: noFormat}
	}
	c, err := given.changed(was)
	if err != nil {
		return err
	}
	if err := s.shelf.put(e.topic, c, false); err != nil {
		return err
	}
	room := c.most
	for _, w := range s.watchesOf(e.topic) {
		room -= w.limit(c.most, c.hasMost, room)
	}
	s.tell(r, codes.Changed, c.encode())
	return nil
}

// deleteTopic deletes a topic with its data; its observers are told that it is
// over. The nil session is the broker itself.
func (s *Server) deleteTopic(session *core.Session, t routing.Topic, done func(error)) {
	s.shelf.remove(t)
	for _, w := range s.watchesOf(t) {
		w.end(codes.NotFound)
	}
	m := &core.Message{Exchange: core.TopicExchange, Topic: t, Retain: true, Guarantee: core.Durable}
	if session == nil {
		s.broker.PublishOwn(m)
		return
	}
	session.Publish(nil, m, func(_ bool, err error) { done(err) })
}

// watchesOf are the watches of a topic, one for each session.
func (s *Server) watchesOf(t routing.Topic) []*watch {
	s.watching.Lock()
	defer s.watching.Unlock()
	var all []*watch
	for key, w := range s.watches {
		if key.topic == t {
			all = append(all, w)
		}
	}
	return all
}

// endsWhenCleared: a topic that was made at /ps has no observers while it has no
// value.
func (s *Server) endsWhenCleared(t routing.Topic, m *core.Message) bool {
	return m.Retain && len(m.Payload) == 0 && s.shelf.find(t) != nil
}

// checkTime is the most time between two confirmable notifications of a topic.
func (s *Server) checkTime(t routing.Topic) time.Duration {
	if c := s.shelf.find(t); c != nil && c.check > 0 {
		return min(c.check, s.cfg.ObserverCheck)
	}
	return s.cfg.ObserverCheck
}
