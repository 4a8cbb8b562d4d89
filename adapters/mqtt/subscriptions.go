package mqtt

import "slices"

// subscriptions are a session's, by the filter as the client wrote it. Few are
// held without a map.
type subscriptions struct {
	few  []*subscription
	many map[string]*subscription
}

const fewMost = 8

func (l *subscriptions) len() int { return len(l.few) + len(l.many) }

func (l *subscriptions) find(text string) *subscription {
	for _, sub := range l.few {
		if sub.text == text {
			return sub
		}
	}
	return l.many[text]
}

// put takes a subscription in, in place of one with the same filter.
func (l *subscriptions) put(sub *subscription) {
	for i := range l.few {
		if l.few[i].text == sub.text {
			l.few[i] = sub
			return
		}
	}
	if l.many == nil && len(l.few) < fewMost {
		l.few = append(l.few, sub)
		return
	}
	if l.many == nil {
		l.many = map[string]*subscription{}
		for _, sub := range l.few {
			l.many[sub.text] = sub
		}
		l.few = nil
	}
	l.many[sub.text] = sub
}

func (l *subscriptions) remove(text string) {
	l.few = slices.DeleteFunc(l.few, func(sub *subscription) bool { return sub.text == text })
	delete(l.many, text)
}

// each visits all, in no order.
func (l *subscriptions) each(visit func(*subscription)) {
	for _, sub := range l.few {
		visit(sub)
	}
	for _, sub := range l.many {
		visit(sub)
	}
}

// The part of session that knows subscriptions, and the sources of its
// connection.

// room tells whether there may be one more subscription.
func (s *session) room(text string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs.len() < most || s.subs.find(text) != nil
}

// subscribe notes a subscription, in place of one with the same filter; undo
// takes that back.
func (s *session) subscribe(c *conn, sub *subscription) (undo func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.owned(c); err != nil {
		return nil, err
	}
	old := s.subs.find(sub.text)
	s.subs.put(sub)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if old != nil {
			s.subs.put(old)
		} else {
			s.subs.remove(sub.text)
		}
	}, nil
}

// unsubscribe forgets a subscription and returns it, nil when there is none.
func (s *session) unsubscribe(c *conn, text string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs.find(text)
	if s.conn != c || sub == nil {
		return nil
	}
	s.subs.remove(text)
	return sub
}

// subscription is the one with that filter, nil when there is none.
func (s *session) subscription(text string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs.find(text)
}

// restored are the subscriptions to topics, for who is the first connection of a
// session that was rebuilt.
func (s *session) restored(c *conn) (subs []*subscription, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c || s.bound {
		return nil, false
	}
	s.bound = true
	s.subs.each(func(sub *subscription) {
		if sub.kind == topics {
			subs = append(subs, sub)
		}
	})
	return subs, true
}

// held is what a connection goes on with.
func (s *session) held(c *conn) (subs []*subscription, queued bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs.each(func(sub *subscription) {
		if sub.kind != topics {
			subs = append(subs, sub)
		}
	})
	return subs, s.queued
}

func (s *session) isQueued() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued
}

func (s *session) setQueued(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.queued = true
	}
}

// recalls tells whether deliveries of an earlier connection come again.
func (s *session) recalls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.returning != nil
}

// enlist notes a source of c.
func (s *session) enlist(c *conn, src *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return
	}
	s.sources = append(s.sources, src)
	if src.kind == topics {
		return
	}
	if s.shares == nil {
		s.shares = map[string]*source{}
	}
	s.shares[src.sub.Load().text] = src
}

// delist takes a source out that is to end; now tells that nothing of it is
// out, so that it can end at once.
func (s *session) delist(c *conn, text string) (src *source, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src = s.shares[text]
	if s.conn != c || src == nil {
		return nil, false
	}
	delete(s.shares, text)
	for i, other := range s.sources {
		if other == src {
			s.sources = append(s.sources[:i], s.sources[i+1:]...)
			break
		}
	}
	src.leaving.Store(true)
	return src, src.out == 0
}

// source is the one of a subscription to a queue, nil when there is none.
func (s *session) source(c *conn, text string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	return s.shares[text]
}

// waiting takes the sources of c that refused a delivery for want of room.
func (s *session) waiting(c *conn) (list []*source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	for _, src := range s.sources {
		if src.refused.Swap(false) {
			list = append(list, src)
		}
	}
	return list
}
