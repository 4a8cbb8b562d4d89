package stomp

import (
	"strings"

	"entrepot/core"
)

// withdrawn is called by the core, from another goroutine, when rules that
// changed have ended something of a session. STOMP has no word for the end of one
// subscription, so an ERROR names it and the connection ends.
func (c *conn) withdrawn(w core.Withdrawal) {
	s, known := c.holderOf(w)
	if !known {
		return
	}
	f := &fault{message: "access refused", detail: "the right to a subscription was withdrawn"}
	if s != nil && !strings.HasPrefix(s.id, "\n") {
		f.about = s.id
	}
	c.fail(f, nil)
}

// holderOf is the subscription that a withdrawal is about; nil and true for one
// that is about to be.
func (c *conn) holderOf(w core.Withdrawal) (s *subscription, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs {
		if s.consumer == w.Consumer || w.Binding != nil && s.source.spec.Key == w.Binding.Queue {
			return s, true
		}
	}
	return nil, c.attaching
}
