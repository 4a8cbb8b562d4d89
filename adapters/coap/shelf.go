package coap

import (
	"slices"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/routing"
)

// config is what a topic's creator said of it at /ps (draft-ietf-core-coap-
// pubsub-21, section 3). It does not change; a new one takes its place.
type topicConfig struct {
	name      string
	data      string
	kind      string // resource-type
	format    int    // noFormat: any
	topicType string
	hasType   bool
	expires   time.Time // zero: never
	most      int       // max-subscribers; 0: not set
	hasMost   bool
	check     time.Duration // observer-check; 0: not set
}

// entry is a topic of the collection, made there or by other means.
type entry struct {
	topic  routing.Topic
	config topicConfig
	timer  *time.Timer // of expires
	value  int         // format of the value that is kept
}

// shelf keeps the configurations of the topics that were made at /ps.
type shelf struct {
	server *Server

	mu  sync.RWMutex
	all map[routing.Topic]*entry
}

// maxTopics bounds the topics that clients make at /ps.
const maxTopics = 100_000

// find is the configuration of a topic that was made at /ps, nil for others.
func (s *shelf) find(t routing.Topic) *topicConfig {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.all[t]; e != nil {
		return &e.config
	}
	return nil
}

// admits tells whether a request's payload may be published to a topic.
func (s *shelf) admits(t routing.Topic, r *request) error {
	c := s.find(t)
	if c != nil && c.format != noFormat && r.format != c.format {
		return refuse(codes.UnsupportedMediaType, "content format %d", c.format)
	}
	return nil
}

// put makes an entry, or changes the one that is there; false when there is one
// and fresh was asked for, or none and it was not.
func (s *shelf) put(t routing.Topic, c topicConfig, fresh bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all[t]
	switch {
	case fresh && old != nil:
		return refuse(codes.BadRequest, "the name is in use")
	case !fresh && old == nil:
		return refuse(codes.NotFound, "no such topic")
	case fresh && len(s.all) >= maxTopics:
		return refuse(codes.ServiceUnavailable, "too many topics")
	}
	e := &entry{topic: t, config: c, value: noFormat}
	if old != nil && old.timer != nil {
		old.timer.Stop()
	}
	if !c.expires.IsZero() {
		e.timer = time.AfterFunc(time.Until(c.expires), func() { s.expire(t, e) })
	}
	s.all[t] = e
	return nil
}

// expire deletes a topic whose time is over.
func (s *shelf) expire(t routing.Topic, e *entry) {
	s.mu.RLock()
	now := s.all[t]
	s.mu.RUnlock()
	if now == e {
		s.server.aside(func() { s.server.deleteTopic(nil, t, func(error) {}) })
	}
}

// remove takes an entry out; false when there is none.
func (s *shelf) remove(t routing.Topic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.all[t]
	if e == nil {
		return false
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	delete(s.all, t)
	return true
}

func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.timer != nil {
			e.timer.Stop()
		}
	}
}

// each calls f with all topics of the collection that the session may see, in
// the order of their names, until it returns false: those made there, and those
// that have a value.
func (s *shelf) each(session *core.Session, f func(*entry) bool) {
	for _, e := range s.list(session) {
		if !f(e) {
			return
		}
	}
}

func (s *shelf) list(session *core.Session) []*entry {
	found := map[routing.Topic]*entry{}
	every, err := routing.NewFilter(routing.Segment{Kind: routing.AnyLevels})
	if err != nil {
		return nil
	}
	session.EachRetained(every, func(m *core.Message) bool {
		if e := ordinary(m); e != nil {
			found[m.Topic] = e
		}
		return len(found) < maxLinks
	})
	s.mu.RLock()
	made := make([]*entry, 0, len(s.all))
	for _, e := range s.all {
		made = append(made, e)
	}
	s.mu.RUnlock()
	for _, e := range made {
		if session.Allowed(subscribeTo(e.topic)) != nil {
			continue
		}
		shown := &entry{topic: e.topic, config: e.config, value: noFormat}
		if old := found[e.topic]; old != nil {
			shown.value = old.value
		}
		found[e.topic] = shown
	}
	all := make([]*entry, 0, len(found))
	for _, e := range found {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		if a.config.name < b.config.name {
			return -1
		}
		return 1
	})
	return all
}

// one is the topic of a name, made at /ps or with a value.
func (s *shelf) one(session *core.Session, t routing.Topic) (*entry, error) {
	m, err := session.Retained(t)
	if err != nil {
		return nil, err
	}
	if c := s.find(t); c != nil {
		return &entry{topic: t, config: *c, value: noFormat}, nil
	}
	if m != nil {
		if e := ordinary(m); e != nil {
			return e, nil
		}
	}
	return nil, refuse(codes.NotFound, "no such topic")
}

// ordinary is the entry of a topic that was not made at /ps; nil when CoAP cannot
// write its path.
func ordinary(m *core.Message) *entry {
	data, ok := dataPath(m.Topic)
	if !ok {
		return nil
	}
	return &entry{topic: m.Topic, value: formatOfMessage(m), config: topicConfig{
		name: m.Topic.String(), data: data, kind: typeData, format: noFormat}}
}

// dataPath is a topic's topic-data; false when CoAP cannot write it.
func dataPath(t routing.Topic) (string, bool) {
	segments, err := routing.Path.PrintTopic(t)
	if err != nil || len(t.String()) > routing.MaxSegment {
		return "", false
	}
	return string(href(append([]string{topicRoot}, segments...))), true
}

// link is the topic's own resource.
func (e *entry) link() *webLink {
	return &webLink{path: []string{collectionRoot, e.config.name}, types: []string{typeTopic}, format: formatTopic}
}

// dataLink is the resource that is published to.
func (e *entry) dataLink() *webLink {
	segments, _ := routing.Path.PrintTopic(e.topic) // it could be written before
	format := e.value
	if e.config.format != noFormat {
		format = e.config.format
	}
	return &webLink{path: append([]string{topicRoot}, segments...), types: []string{e.config.kind}, format: format, observed: true}
}
