package coap

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// Roots of the resources (names.md, sections 3 and 5).
const (
	topicRoot      = "t"
	queueRoot      = "q"
	exchangeRoot   = "x"
	procedureRoot  = "rpc"
	replyRoot      = "reply"
	collectionRoot = "ps"
	wellKnownRoot  = ".well-known"
)

// Codes that refusals of the server itself bear.
const (
	refusedBusy    = codes.ServiceUnavailable
	refusedUnknown = codes.Unauthorized
)

// route hands a request to its resource.
func (s *Server) route(r *request, topics *topicCache) {
	root, rest := r.root()
	var resource func(*request, [][]byte)
	switch root {
	case topicRoot:
		resource = func(r *request, rest [][]byte) { s.topic(r, rest, topics) }
	case queueRoot:
		resource = s.queue
	case exchangeRoot:
		resource = s.exchange
	case procedureRoot:
		resource = s.procedure
	case replyRoot:
		resource = s.reply
	case collectionRoot:
		resource = s.collection
	case wellKnownRoot:
		resource = s.wellKnown
	}
	s.spend(r)
	switch {
	case r.proxy:
		r.fail(refuse(codes.ProxyingNotSupported, "no proxy"))
	case resource == nil:
		r.fail(refuse(codes.NotFound, "no such resource"))
	case root != topicRoot && r.conditional(): // critical, and there is nothing to compare with
		r.fail(refuse(codes.BadOption, "If-Match and If-None-Match are for the values of topics"))
	case s.slowed(r), s.hurried(r), r.nextPage(), r.block1.there && !r.assemble():
		// Answered.
	default:
		r.hold()
		resource(r, rest)
	}
}

// topicCache remembers the topics of paths.
type topicCache struct {
	key   []byte
	known map[string]routing.Topic
}

// maxCached bounds a topicCache; beyond it all are forgotten. Longer paths than
// maxCachedPath are not kept.
const (
	maxCached     = 4096
	maxCachedPath = 512
)

// find is the topic of path segments.
func (c *topicCache) find(segments [][]byte) (routing.Topic, error) {
	c.key = c.key[:0]
	for _, s := range segments {
		c.key = append(append(c.key, byte(len(s))), s...)
	}
	if t, ok := c.known[string(c.key)]; ok {
		return t, nil
	}
	t, err := topicOf(segments)
	if err != nil || len(c.key) > maxCachedPath {
		return t, err
	}
	if c.known == nil || len(c.known) >= maxCached {
		c.known = map[string]routing.Topic{}
	}
	c.known[string(c.key)] = t
	return t, nil
}

// topicOf reads a topic from path segments.
func topicOf(segments [][]byte) (routing.Topic, error) {
	names, ok := texts(segments)
	if !ok {
		return routing.Topic{}, refuse(codes.BadRequest, "the path is not UTF-8")
	}
	t, err := routing.Path.ParseTopic(names)
	if err != nil {
		return t, refuse(codes.BadRequest, "%v", err)
	}
	return t, nil
}

// topic serves /t.
func (s *Server) topic(r *request, rest [][]byte, topics *topicCache) {
	session, err := r.to.link.identity()
	if err != nil {
		r.fail(err)
		return
	}
	if len(rest) == 0 {
		s.filter(r, session)
		return
	}
	t, err := topics.find(rest)
	if err != nil {
		r.fail(err)
		return
	}
	if err := s.topicMethod(r, session, t); err != nil {
		r.fail(err)
	}
}

// topicMethod carries a request on a topic out, if its condition holds.
func (s *Server) topicMethod(r *request, session *core.Session, t routing.Topic) error {
	if r.conditional() {
		s.conditional.Lock()
		defer s.conditional.Unlock()
		if err := s.checkCondition(r, session, t); err != nil {
			return err
		}
	}
	switch r.code {
	case codes.PUT, codes.POST:
		return s.publish(r, session, t)
	case codes.GET:
		return s.get(r, session, t)
	case codes.DELETE:
		return s.clear(r, session, t)
	}
	return refuse(codes.MethodNotAllowed, "GET, PUT, POST or DELETE")
}

// publish is PUT and POST on a topic. What it returns is answered by the caller.
func (s *Server) publish(r *request, session *core.Session, t routing.Topic) error {
	m, err := r.message(core.Address{Exchange: core.TopicExchange, Topic: t}, r.code == codes.PUT, "retain", "delay", "priority")
	if err != nil {
		return err
	}
	if err := s.shelf.admits(t, r); err != nil {
		// Who may not publish is not told what the topic is like.
		if no := session.Allowed(auth.Publish, auth.Object{Kind: auth.Topic, Name: t.String()}); no != nil {
			return no
		}
		return err
	}
	code := codes.Changed
	if m.Retain && len(m.Payload) > 0 {
		// Who may not read is not told whether there was something.
		if had, err := session.Retained(t); err == nil && had == nil {
			code = codes.Created
		}
	}
	session.Publish(nil, m, r.exchange.published(code))
	return nil
}

// published answers with a code when the message is where it is to be.
func (x *exchange) published(code codes.Code) core.Done {
	return func(_ bool, err error) {
		if err != nil {
			x.fail(err)
			return
		}
		x.answer(&response{code: code})
	}
}

// checkCondition is If-Match and If-None-Match (RFC 7252, 5.10.8). Publishes of
// other protocols may come between it and what it is for.
func (s *Server) checkCondition(r *request, session *core.Session, t routing.Topic) error {
	have, err := session.Retained(t)
	switch {
	case err != nil:
		return err
	case have != nil && r.absent, have == nil && len(r.match) > 0:
		return refuse(codes.PreconditionFailed, "the value is not as it should be")
	case len(r.match) == 0:
		return nil
	}
	tag := s.etag(have)
	for _, want := range r.match {
		if len(want) == 0 || bytes.Equal(want, tag) {
			return nil
		}
	}
	return refuse(codes.PreconditionFailed, "the value is not as it should be")
}

// message makes a message of a request's payload; known are the queries that
// may be there.
func (r *request) message(to core.Address, retain bool, known ...string) (*core.Message, error) {
	m := r.plainMessage(to)
	m.Retain = retain
	if len(r.query) == 0 && r.format == noFormat && r.maxAge < 0 {
		return m, nil
	}
	values, err := r.queries(known...)
	if err != nil {
		return nil, err
	}
	if v, ok := values["retain"]; ok {
		if m.Retain, err = strconv.ParseBool(orTrue(v)); err != nil {
			return nil, refuse(codes.BadRequest, "retain is true or false")
		}
	}
	p := &core.Properties{}
	if r.format != noFormat {
		p.ContentType, p.ContentEncoding = contentTypeOf(r.format)
		m.Props = p
	}
	if r.maxAge >= 0 {
		p.HasTTL, p.TTL = true, time.Duration(r.maxAge)*time.Second
		m.Props = p
	}
	if v, ok := values["priority"]; ok {
		n, err := strconv.ParseUint(v, 10, 8)
		if err != nil {
			return nil, refuse(codes.BadRequest, "priority is a number from 0 to %d", math.MaxUint8)
		}
		p.Priority, p.HasPriority = uint8(n), true
		m.Props = p
	}
	if d, ok, err := milliseconds(values, "delay"); err != nil {
		return nil, err
	} else if ok {
		p.Delay = d
		m.Props = p
	}
	return m, nil
}

func orTrue(v string) string {
	if v == "" {
		return "true"
	}
	return v
}

// plainMessage is the payload with what its publisher asked for: a confirmable
// request is durable, any other at most once.
func (r *request) plainMessage(to core.Address) *core.Message {
	var m *core.Message
	if r.exchange.upload != nil {
		m = &core.Message{Payload: r.payload}
	} else {
		m = core.NewMessage(len(r.payload))
		copy(m.Payload, r.payload)
	}
	m.Exchange, m.Topic = to.Exchange, to.Topic
	if r.confirmable() {
		m.Guarantee = core.Durable
	}
	return m
}

// clear is DELETE on a topic: the value that was kept goes.
func (s *Server) clear(r *request, session *core.Session, t routing.Topic) error {
	if s.shelf.find(t) != nil {
		if had, err := session.Retained(t); err == nil && had == nil {
			return refuse(codes.NotFound, "nothing was published yet")
		}
	}
	m := &core.Message{Exchange: core.TopicExchange, Topic: t, Retain: true}
	if r.confirmable() {
		m.Guarantee = core.Durable
	}
	session.Publish(nil, m, r.exchange.published(codes.Deleted))
	return nil
}

// firstValue is what an observer of one topic gets first: its value, or nothing
// yet.
func (r *request) firstValue(session *core.Session, w *watch) (*response, error) {
	m, err := session.Retained(w.topic)
	if err != nil {
		return nil, err
	}
	w.seed(m)
	if m == nil {
		return &response{code: codes.Content}, nil
	}
	return r.server.value(r, m), nil
}

// get is GET on a topic.
func (s *Server) get(r *request, session *core.Session, t routing.Topic) error {
	switch {
	case r.observe == 0 && (!r.block2.there || r.block2.num == 0):
		if s.shelf.find(t) != nil {
			if m, err := session.Retained(t); err == nil && m == nil {
				return refuse(codes.NotFound, "nothing was published yet")
			}
		}
		s.later(r, func(r *request) {
			r.observeResource(session, t.Filter(), func(w *watch) (*response, error) {
				return r.firstValue(session, w)
			})
		})
		return nil
	case r.observe == 1:
		r.forgetObserver()
	}
	m, err := session.Retained(t)
	if err != nil {
		return err
	}
	if r.block2.there && r.block2.num > 0 {
		m = s.notified(session, t, m)
	}
	if m == nil {
		return refuse(codes.NotFound, "nothing is kept")
	}
	r.respond(s.value(r, m))
	return nil
}

// notified is what an observer, who asks for a later block, was sent the first
// one of; without observers it is what is kept.
func (s *Server) notified(session *core.Session, t routing.Topic, kept *core.Message) *core.Message {
	s.watching.Lock()
	w := s.watches[watchKey{session, t}]
	s.watching.Unlock()
	if w == nil {
		return kept
	}
	if m := w.keeps(); m != nil {
		return m
	}
	return kept
}

// value is the answer with a message; 2.03 when the client has it.
func (s *Server) value(r *request, m *core.Message) *response {
	tag := s.etag(m)
	for _, have := range r.etags {
		if bytes.Equal(have, tag) {
			res := &response{code: codes.Valid}
			res.add(message.ETag, tag)
			return res
		}
	}
	if r.accept != noFormat && r.accept != formatOfMessage(m) {
		return refusalOf(refuse(codes.NotAcceptable, "the value has another format"))
	}
	res := &response{code: codes.Content}
	describe(res, m, time.Now())
	res.add(message.ETag, tag)
	return res
}

// filter serves /t itself: an observation of a filter.
func (s *Server) filter(r *request, session *core.Session) {
	if r.code != codes.GET {
		r.fail(refuse(codes.MethodNotAllowed, "a topic is needed"))
		return
	}
	values, err := r.queries("filter")
	if err != nil {
		r.fail(err)
		return
	}
	text, ok := values["filter"]
	f, err := routing.MQTT.ParseFilter(text)
	switch {
	case !ok:
		err = refuse(codes.BadRequest, "which topics? ?filter=a/+/b")
	case err != nil:
		err = refuse(codes.BadRequest, "%v", err)
	case r.observe == 1:
		r.forgetObserver()
	case r.observe != 0:
		err = refuse(codes.BadRequest, "a filter can be observed only")
	}
	if err != nil {
		r.fail(err)
		return
	}
	if r.observe == 1 {
		r.answer(&response{code: codes.Content})
		return
	}
	s.later(r, func(r *request) {
		r.observeResource(session, f, func(w *watch) (*response, error) {
			if w.topic.IsZero() {
				return &response{code: codes.Content}, nil
			}
			return r.firstValue(session, w)
		})
	})
}
