package coap

import (
	"sync"

	"entrepot/routing"
)

// subscribers counts the observers of each topic, those of all sessions.
type subscribers struct {
	mu  sync.Mutex
	all map[routing.Topic]int
}

// add counts one in; false when there are as many as may be.
func (s *subscribers) add(t routing.Topic, most int, limited bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limited && s.all[t] >= most {
		return false
	}
	if s.all == nil {
		s.all = map[routing.Topic]int{}
	}
	s.all[t]++
	return true
}

// remove counts one out.
func (s *subscribers) remove(t routing.Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[t]--; s.all[t] == 0 {
		delete(s.all, t)
	}
}
