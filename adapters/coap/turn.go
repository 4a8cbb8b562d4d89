package coap

import "sync"

// turns are the requests of a stream that are not answered yet, in groups: a
// group ends with a message that waits for all before it (RFC 8323, 5.4.1, 5.5).
type turns struct {
	mu    sync.Mutex
	all   []*turn // the last one is being filled
	most  load    // of the requests that are held; what makes it full may be larger
	held  load
	space chan struct{} // closed when the client may be read on; nil: nobody waits
}

// load is requests that are held in memory, and their bytes.
type load struct{ requests, bytes int }

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

// hold counts a request that may be long in memory; end follows, with the same
// bytes.
func (u *turn) hold(bytes int) {
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.of.held.requests++
	u.of.held.bytes += bytes
}

// end tells that a request has its answer, which is on its way. bytes are those of
// hold, if that was called.
func (u *turn) end(held bool, bytes int) {
	t := u.of
	t.mu.Lock()
	if held {
		t.held.requests--
		t.held.bytes -= bytes
	}
	if t.space != nil && t.held.requests <= t.most.requests/2 && t.held.bytes <= t.most.bytes/2 {
		close(t.space)
		t.space = nil
	}
	u.open--
	t.pass()
}

// crowded is what to wait for when there is as much as may be; nil when more may
// be read.
func (t *turns) crowded() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held.requests < t.most.requests && t.held.bytes < t.most.bytes {
		return nil
	}
	if t.space == nil {
		t.space = make(chan struct{})
	}
	return t.space
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
