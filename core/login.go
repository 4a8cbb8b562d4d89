package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"entrepot/core/auth"
)

// logins is who may come in, and what is remembered of those who wanted to.
type logins struct {
	door    atomic.Pointer[auth.Door] // nil: everybody is welcome
	backoff auth.Backoff
	lines   lines
}

// SetDoor says who may log in from now on; nil, as before the first call,
// welcomes everybody. Who is in and would not come in any more as the same is
// ended, with EndRefused, before SetDoor returns: a user who is gone or whose
// line has changed, a token whose key is gone. What users have who are away loses
// what their groups gave, where they are out of those: see SetPolicy.
func (b *Broker) SetDoor(d *auth.Door) {
	before := b.logins.door.Swap(d)
	b.End(EndRefused, func(s *Session) bool {
		if d.Vouches(front(s.origin.Protocol), s.Principal()) {
			return false
		}
		s.regroup(d, before)
		return true
	})
	if b.regroup(before) {
		b.review()
	}
}

// front is the protocol that a session's log-in came by: adapters keep sessions
// under names of their own, such as stomp-durable.
func front(protocol string) string {
	for i := range len(protocol) {
		if protocol[i] == '-' {
			return protocol[:i]
		}
	}
	return protocol
}

// Door is who may log in; nil welcomes everybody.
func (b *Broker) Door() *auth.Door { return b.logins.door.Load() }

// Authenticate proves who a client is by what it brings and returns that, for
// Hello; without a door that is an anonymous client, whatever it says. It may
// take tens of milliseconds, and longer when many log in at once: hold no lock,
// and let ctx end. Errors: ErrNotAllowed for an anonymous client, an unknown
// name, a wrong password, which the client is not to tell apart; ErrTimeout when
// ctx ended first, or there were so many failures that it was not looked at.
func (b *Broker) Authenticate(ctx context.Context, c auth.Credentials) (auth.Principal, error) {
	d := b.logins.door.Load()
	if d == nil {
		if c.PSK != "" {
			b.logins.backoff.Passed(c, time.Now())
		}
		return auth.Principal{ClientID: c.ClientID}, nil
	}
	if b.PutOff(c) {
		return auth.Principal{}, fmt.Errorf("log-in: %w: too many failures", ErrTimeout)
	}
	p, err := d.Admit(ctx, c)
	var r *auth.Refusal
	switch {
	case err == nil:
		b.logins.backoff.Passed(c, time.Now())
		return p, nil
	case errors.As(err, &r):
		if r.Reason.Guess() {
			b.logins.backoff.Failed(d.Backoff(), c, time.Now())
		}
		b.refused(c, r.Reason, r.User)
		b.log.Debug("log-in refused", "protocol", c.Protocol, "remote", c.Remote, "reason", err)
		return auth.Principal{}, fmt.Errorf("log-in: %w", ErrNotAllowed)
	}
	b.refused(c, auth.Busy, c.User)
	return auth.Principal{}, fmt.Errorf("log-in: %w", ErrTimeout)
}

// PutOff tells whether a log-in is not looked at, as there were so many failures
// from where it comes, or under its name; that is counted as a refusal. Adapters ask
// it whose clients prove a key of User before there is anything to Authenticate.
func (b *Broker) PutOff(c auth.Credentials) bool {
	if !b.logins.backoff.Blocked(c, time.Now()) {
		return false
	}
	b.refused(c, auth.TooMany, c.User)
	return true
}

// Unproved counts such a client that did not prove the key, as one that failed in
// Authenticate.
func (b *Broker) Unproved(c auth.Credentials) {
	b.logins.backoff.Failed(b.Door().Backoff(), c, time.Now())
	b.refused(c, auth.BadKey, c.User)
}

// refused counts a log-in that was refused, and tells the log.
func (b *Broker) refused(c auth.Credentials, why auth.Reason, user string) {
	b.mu.Lock()
	p := b.protocolLocked(c.Protocol)
	if p.refused == nil {
		p.refused = map[auth.Reason]uint64{}
	}
	p.refused[why]++
	b.mu.Unlock()
	b.logins.lines.write(b.log, auth.Audit{Act: "login", Outcome: auth.Refused, Reason: string(why),
		Protocol: c.Protocol, Listener: c.Listener, User: b.named(&c, user), ClientID: c.ClientID, Remote: c.Remote})
}

// named is a user's name for the log. One that a client only claims, and nobody
// has, may be a password in the wrong place.
func (b *Broker) named(c *auth.Credentials, user string) string {
	if user == "" || user != c.User || b.Door().Lists(user) {
		return user
	}
	return "(not listed)"
}

// refusedID is refused for a client id that is another user's.
func (b *Broker) refusedID(h *Hello) {
	at, _ := netip.ParseAddrPort(h.Remote) // a unix socket has none
	b.refused(auth.Credentials{Protocol: h.Protocol, ClientID: h.ClientID, Remote: at.Addr()}, auth.BadClientID, h.Principal.User)
}

// lines bounds what refused log-ins write to the log: some at once, then a few
// in a second. What was left out is counted in the next.
type lines struct {
	mu    sync.Mutex
	left  float64
	paid  time.Time
	quiet int
}

const (
	linesAtOnce    = 50
	linesPerSecond = 5
)

func (l *lines) write(log *slog.Logger, a auth.Audit) {
	quiet, ok := l.take(time.Now())
	if !ok {
		return
	}
	if quiet > 0 {
		log = log.With("left_out", quiet)
	}
	a.Write(log)
}

// take tells whether a line may be written, and how many were not before it.
func (l *lines) take(now time.Time) (quiet int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paid.IsZero() {
		l.left, l.paid = linesAtOnce, now
	}
	l.left = min(linesAtOnce, l.left+linesPerSecond*now.Sub(l.paid).Seconds())
	l.paid = now
	if l.left < 1 {
		l.quiet++
		return 0, false
	}
	l.left--
	quiet, l.quiet = l.quiet, 0
	return quiet, true
}
