package mqtt

// The part of session that knows subscriptions, and the sources of its
// connection.

// room tells whether there may be one more subscription.
func (s *session) room(text string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subs[text] != nil || len(s.subs) < most
}

// subscribe notes a subscription, in place of one with the same filter; undo
// takes that back.
func (s *session) subscribe(c *conn, sub *subscription) (undo func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.owned(c); err != nil {
		return nil, err
	}
	if s.subs == nil {
		s.subs = map[string]*subscription{}
	}
	old := s.subs[sub.text]
	s.subs[sub.text] = sub
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if old != nil {
			s.subs[sub.text] = old
		} else {
			delete(s.subs, sub.text)
		}
	}, nil
}

// unsubscribe forgets a subscription and returns it, nil when there is none.
func (s *session) unsubscribe(c *conn, text string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs[text]
	if s.conn != c || sub == nil {
		return nil
	}
	delete(s.subs, text)
	return sub
}

// held is what a connection goes on with.
func (s *session) held(c *conn) (subs []*subscription, queued bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subs {
		if sub.kind != topics {
			subs = append(subs, sub)
		}
	}
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
