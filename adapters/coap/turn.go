package coap

import "sync"

// turns are the requests of a stream that are not answered yet, in groups: a
// group ends with a message that waits for all before it (RFC 8323, 5.4.1, 5.5).
type turns struct {
	mu  sync.Mutex
	all []*turn // the last one is being filled
}

// turn is a group of requests.
type turn struct {
	of   *turns
	open int    // requests without an answer
	then func() // called when there are none, also before it; nil in the last
}

// begin counts a request in; end follows.
func (t *turns) begin() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 {
		t.all = append(t.all, &turn{of: t})
	}
	last := t.all[len(t.all)-1]
	last.open++
	return last
}

// end tells that a request has its answer, which is on its way.
func (u *turn) end() {
	u.of.mu.Lock()
	u.open--
	u.of.pass()
}

// after calls then when all requests so far have their answers; it may do so at
// once. then must not block.
func (t *turns) after(then func()) {
	t.mu.Lock()
	if len(t.all) == 0 {
		t.all = append(t.all, &turn{of: t})
	}
	t.all[len(t.all)-1].then = then
	t.all = append(t.all, &turn{of: t})
	t.pass()
}

// waiting is how many calls of after wait.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(len(t.all)-1, 0)
}

// pass ends the groups that are over and unlocks.
func (t *turns) pass() {
	var due []func()
	for len(t.all) > 1 && t.all[0].open == 0 {
		due = append(due, t.all[0].then)
		t.all = t.all[1:]
	}
	t.mu.Unlock()
	for _, f := range due {
		f()
	}
}
