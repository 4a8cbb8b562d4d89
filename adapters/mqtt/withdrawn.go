package mqtt

import "entrepot/core"

// Withdrawn implements core.Withdrawer. MQTT cannot end one subscription, so the
// connection ends (see core.Hello); the session has the subscription no more
// when the client comes back.
func (s *session) Withdrawn(w core.Withdrawal) []core.Note {
	s.mu.Lock()
	defer s.mu.Unlock()
	var over []*subscription
	s.subs.each(func(sub *subscription) {
		if s.isOf(sub, &w) {
			over = append(over, sub)
		}
	})
	notes := make([]core.Note, 0, len(over))
	for _, sub := range over {
		s.subs.remove(sub.text)
		notes = append(notes, core.Note{Key: []byte(subNote + sub.text)})
	}
	return notes
}

// isOf tells whether a subscription is what was withdrawn. With mu held.
func (s *session) isOf(sub *subscription, w *core.Withdrawal) bool {
	if w.Consumer != nil {
		src := s.shares[sub.text]
		return src != nil && src.consumer == w.Consumer
	}
	b := w.Binding
	if b == nil || b.Filter != sub.filter {
		return false
	}
	switch {
	case b.Source == core.RPCExchange:
		return sub.kind == serve
	case b.Queue.Kind == core.GroupQueue:
		return sub.kind == shared && sub.queue == b.Queue
	}
	return sub.kind == topics && b.Source == core.TopicExchange
}
