package core

import (
	"container/heap"
	"fmt"
	"sync"
	"time"

	"entrepot/core/auth"
)

// Principal is who acts in this session, as it was proved last.
func (s *Session) Principal() auth.Principal {
	if p := s.renewed.Load(); p != nil {
		return *p
	}
	return s.hello.Principal
}

// Renew takes what the client proved anew, in the middle of its session: until
// when, and with what groups and limits. Errors: ErrNotAllowed for another user,
// ErrClosed.
func (s *Session) Renew(p auth.Principal) error {
	if err := s.open(); err != nil {
		return err
	}
	if p.User != s.hello.Principal.User {
		return fmt.Errorf("session %q: %w to go on as another user", s.hello.ClientID, ErrNotAllowed)
	}
	p.ClientID = s.hello.Principal.ClientID
	s.renewed.Store(&p)
	s.grants.forget()
	go s.broker.renewed(s)
	s.broker.deadlines.set(s, p.Until)
	return nil
}

// End ends every session whose connection is there and which whose names, for
// instance because its user is gone. Each is as if its connection was lost. It
// returns how many it ended; whose is called with no lock held.
func (b *Broker) End(why EndReason, whose func(*Session) bool) int {
	b.mu.Lock()
	var all []*Session
	for _, p := range b.protocols {
		for s := range p.open {
			all = append(all, s)
		}
	}
	b.mu.Unlock()
	n := 0
	for _, s := range all {
		if whose(s) && s.end(why) {
			n++
		}
	}
	return n
}

// end ends the connection's hold from inside; false when it had ended.
func (s *Session) end(why EndReason) bool {
	if !s.rec.leave(s, CloseLost) {
		return false
	}
	s.broker.closed(s)
	if s.hello.Kick != nil {
		go s.hello.Kick(why)
	}
	return true
}

// deadlines are the sessions whose credentials expire, the next one in front,
// with one timer for all.
type deadlines struct {
	mu    sync.Mutex
	row   deadlineRow
	timer *time.Timer
	over  bool
}

// deadline is a place in the row.
type deadline struct {
	session *Session
	at      time.Time
	index   int
}

// set moves a session to another time; the zero Time takes it out.
func (d *deadlines) set(s *Session, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := s.deadline; old != nil {
		heap.Remove(&d.row, old.index)
		s.deadline = nil
	}
	if !at.IsZero() && !d.over && !s.ended.Load() {
		s.deadline = &deadline{session: s, at: at}
		heap.Push(&d.row, s.deadline)
	}
	d.arm()
}

// clear takes a session that ended out.
func (d *deadlines) clear(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := s.deadline; old != nil {
		heap.Remove(&d.row, old.index)
		s.deadline = nil
		d.arm()
	}
}

// arm sets the timer for the front. With mu held.
func (d *deadlines) arm() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if len(d.row) > 0 && !d.over {
		d.timer = time.AfterFunc(max(time.Until(d.row[0].at), 0), d.fire)
	}
}

// fire ends all whose time has come.
func (d *deadlines) fire() {
	for {
		d.mu.Lock()
		if len(d.row) == 0 || time.Now().Before(d.row[0].at) || d.over {
			d.arm()
			d.mu.Unlock()
			return
		}
		s := heap.Pop(&d.row).(*deadline).session
		s.deadline = nil
		d.mu.Unlock()
		s.end(EndExpired)
	}
}

// end forgets all.
func (d *deadlines) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over, d.row = true, nil
	d.arm()
}

// deadlineRow is a heap.
type deadlineRow []*deadline

// Len implements heap.Interface.
func (r deadlineRow) Len() int { return len(r) }

// Less implements heap.Interface.
func (r deadlineRow) Less(i, j int) bool { return r[i].at.Before(r[j].at) }

// Swap implements heap.Interface.
func (r deadlineRow) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

// Push implements heap.Interface.
func (r *deadlineRow) Push(x any) {
	d := x.(*deadline)
	d.index = len(*r)
	*r = append(*r, d)
}

// Pop implements heap.Interface.
func (r *deadlineRow) Pop() any {
	old := *r
	d := old[len(old)-1]
	*r = old[:len(old)-1]
	return d
}
