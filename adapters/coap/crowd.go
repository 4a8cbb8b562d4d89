package coap

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// crowd is all associations of all sockets. It says who has to make room when there
// is none: first strangers, who have no session, then those who were silent for
// longest. Whatever it is asked takes the same short time, however many there are.
type crowd struct {
	patience time.Duration // a stranger older than this has no excuse
	quiet    time.Duration // who was heard within it is not put out

	mu        sync.Mutex
	strangers list.List // the one who came first in front
	known     list.List // the one who was silent for longest in front
	hosts     map[netip.Addr]*household
	users     map[string]*list.List // as known
	ranks     map[int]*list.List    // households by how many strangers they have
	top       int                   // the highest of those
}

// household is the associations of one network address.
type household struct {
	peer      netip.Addr
	strangers list.List
	known     list.List
	rank      int
	place     *list.Element // in crowd.ranks; nil while rank is 0
}

func (h *household) size() int { return h.strangers.Len() + h.known.Len() }

// seat is an association's place in the crowd.
type seat struct {
	host  *household // nil: it has none
	user  string
	known bool
	since time.Time // it came, or for known ones was heard
	// all, own and alike are those of the crowd's, the household's and the user's
	// lists.
	all, own, alike *list.Element
}

func newCrowd(patience, quiet time.Duration) *crowd {
	return &crowd{patience: patience, quiet: quiet, hosts: map[netip.Addr]*household{},
		users: map[string]*list.List{}, ranks: map[int]*list.List{}}
}

// enter takes in a stranger.
func (c *crowd) enter(a *association, peer netip.Addr, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[peer]
	if h == nil {
		h = &household{peer: peer}
		c.hosts[peer] = h
	}
	a.seat = seat{host: h, since: now, all: c.strangers.PushBack(a), own: h.strangers.PushBack(a)}
	c.rank(h)
}

// rank puts a household where its number of strangers belongs. With mu held.
func (c *crowd) rank(h *household) {
	if h.place != nil {
		was := c.ranks[h.rank]
		was.Remove(h.place)
		h.place = nil
		if was.Len() == 0 {
			delete(c.ranks, h.rank)
		}
	}
	if h.rank = h.strangers.Len(); h.rank > 0 {
		if c.ranks[h.rank] == nil {
			c.ranks[h.rank] = list.New()
		}
		h.place = c.ranks[h.rank].PushBack(h)
	}
	c.top = max(c.top, h.rank)
	for c.top > 0 && c.ranks[c.top] == nil { // one step, as ranks change by one
		c.top--
	}
}

// heard notes that a client said something.
func (c *crowd) heard(a *association, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := &a.seat; s.host != nil && s.known {
		s.since = now
		c.known.MoveToBack(s.all)
		s.host.known.MoveToBack(s.own)
		c.users[s.user].MoveToBack(s.alike)
	}
}

// know notes that a stranger has a session now, as a user; "" is nobody.
func (c *crowd) know(a *association, user string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &a.seat
	if s.host == nil || s.known {
		return
	}
	c.strangers.Remove(s.all)
	s.host.strangers.Remove(s.own)
	c.rank(s.host)
	if c.users[user] == nil {
		c.users[user] = list.New()
	}
	s.known, s.user, s.since = true, user, now
	s.all, s.own, s.alike = c.known.PushBack(a), s.host.known.PushBack(a), c.users[user].PushBack(a)
}

// leave takes an association out. Further calls do nothing.
func (c *crowd) leave(a *association) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(a)
}

func (c *crowd) leaveLocked(a *association) {
	s := &a.seat
	h := s.host
	switch {
	case h == nil:
		return
	case s.known:
		c.known.Remove(s.all)
		h.known.Remove(s.own)
		alike := c.users[s.user]
		if alike.Remove(s.alike); alike.Len() == 0 {
			delete(c.users, s.user)
		}
	default:
		c.strangers.Remove(s.all)
		h.strangers.Remove(s.own)
		c.rank(h)
	}
	if h.size() == 0 {
		delete(c.hosts, h.peer)
	}
	a.seat = seat{}
}

// makeRoom takes out the one who has to go for a newcomer from an address, of that
// address alone if own; nil when nobody has to.
func (c *crowd) makeRoom(peer netip.Addr, own bool, now time.Time) *association {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[peer]
	if h == nil {
		h = &household{}
	}
	strangers, known := &c.strangers, &c.known
	if own {
		strangers = &h.strangers
	}
	if own || c.crowds(h) {
		known = &h.known
	}
	a := since(strangers, now.Add(-c.patience))
	if a == nil && !own {
		a = c.pushing(h)
	}
	if a == nil {
		a = since(known, now.Add(-c.quiet))
	}
	if a != nil {
		c.leaveLocked(a)
	}
	return a
}

// makeRoomOf is makeRoom for a newcomer who has proved to be a user, of the same
// user.
func (c *crowd) makeRoomOf(user string, now time.Time) *association {
	c.mu.Lock()
	defer c.mu.Unlock()
	alike := c.users[user]
	if user == "" || alike == nil {
		return nil
	}
	a := since(alike, now.Add(-c.quiet))
	if a != nil {
		c.leaveLocked(a)
	}
	return a
}

// since is the first of a list if it is as old as that.
func since(l *list.List, then time.Time) *association {
	if e := l.Front(); e != nil {
		if a := e.Value.(*association); !a.seat.since.After(then) {
			return a
		}
	}
	return nil
}

// pushing is the oldest stranger of the address that has the most of them, if that
// has more than the newcomer's would have: who opens many is in its own way, and in
// nobody else's.
func (c *crowd) pushing(newcomer *household) *association {
	if c.top <= newcomer.rank+1 {
		return nil
	}
	h := c.ranks[c.top].Front().Value.(*household)
	return h.strangers.Front().Value.(*association)
}

// crowds tells whether an address has more than its share, and an eighth of all
// besides: it may not put out others any more. With mu held.
func (c *crowd) crowds(h *household) bool {
	total := c.strangers.Len() + c.known.Len()
	return h.size() > total/max(1, len(c.hosts)) && h.size() > total/8
}

// size is how many there are.
func (c *crowd) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.strangers.Len() + c.known.Len()
}
