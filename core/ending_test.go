package core_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
)

// endings writes down why sessions were ended, in order.
type endings struct {
	mu  sync.Mutex
	all []string
}

func (e *endings) of(name string) func(core.EndReason) {
	return func(why core.EndReason) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, name+": "+why.String())
	}
}

func (e *endings) String() string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.all, "; ")
}

// until is a client that proved something for a time.
func until(d time.Duration, e *endings) func(*core.Hello) {
	return func(c *core.Hello) {
		c.Kick = e.of(c.ClientID)
		c.Principal = auth.Principal{User: "ann", Until: time.Now().Add(d)}
	}
}

// [faults C 49] what was proved ends, and with it the connection, in the order of
// time and not of log-in; the client session waits for its client as after a lost
// connection, and the will goes.
func TestCredentialsExpire(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		box := h.inbox()
		watch := h.fresh("watch")
		h.subscribe(watch, "watch", "will", box)
		will := func(c *core.Hello) { c.Will = &core.Will{Message: h.note("will", "gone")} }
		late, soon := h.fresh("late", until(time.Hour, &e)), h.fresh("soon", until(30*time.Second, &e), will)
		h.fresh("never", func(c *core.Hello) { c.Kick = e.of("never") })
		pass(29 * time.Second)
		h.want(&e, "")
		box.want()
		pass(time.Second)
		h.want(&e, "soon: the credentials have expired")
		_, err := h.say(soon, h.note("t", "x"))
		h.wantError(err, core.ErrClosed)
		box.want("gone")
		soon.Close(core.CloseLost) // as the adapter does then
		h.again("soon", until(time.Minute, &e)).Close(core.CloseNormal)
		pass(time.Hour)
		h.want(&e, "soon: the credentials have expired; late: the credentials have expired")
		late.Close(core.CloseLost)
		if n := h.broker.Stats().Protocols["mqtt"].Connections; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// [faults C 49] a session goes on as long as it is renewed, by the same user;
// what is in the past ends it at once, no end at all lets it go on.
func TestRenewal(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		s := h.fresh("a", until(time.Minute, &e))
		for range 3 {
			pass(59 * time.Second)
			h.must(s.Renew(auth.Principal{User: "ann", Groups: []string{"ops"}, Until: time.Now().Add(time.Minute)}))
		}
		if p := s.Principal(); p.User != "ann" || len(p.Groups) != 1 {
			t.Errorf("%+v", p)
		}
		h.wantError(s.Renew(auth.Principal{User: "bob", Until: time.Now().Add(time.Hour)}), core.ErrNotAllowed)
		h.wantError(s.Renew(auth.Principal{}), core.ErrNotAllowed)
		h.must(s.Renew(auth.Principal{User: "ann"}))
		pass(time.Hour)
		h.want(&e, "")
		h.must(s.Renew(auth.Principal{User: "ann", Until: time.Now().Add(-time.Second)}))
		h.want(&e, "a: the credentials have expired")
		h.wantError(s.Renew(auth.Principal{User: "ann"}), core.ErrClosed)
	})
}

// Rights are asked for anew after a renewal: groups may have changed.
func TestRenewalChangesRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseWith(t, func(who auth.Principal, _ auth.Action, _ auth.Object) error {
			if len(who.Groups) > 0 {
				return nil
			}
			return core.ErrNotAllowed
		})
		s := h.fresh("a", func(c *core.Hello) { c.Principal = auth.Principal{User: "ann", Groups: []string{"ops"}} })
		h.tell(s, "t", "1")
		h.must(s.Renew(auth.Principal{User: "ann"}))
		_, err := h.say(s, h.note("t", "2"))
		h.wantError(err, core.ErrNotAllowed)
	})
}

// A session that closed, was taken over or lives in a broker that stops is not
// ended once more.
func TestExpiryOfWhatIsGone(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		h.fresh("closed", until(time.Minute, &e)).Close(core.CloseNormal)
		h.fresh("taken", until(time.Minute, &e))
		h.again("taken", func(c *core.Hello) { c.Principal.User = "ann" })
		h.want(&e, "taken: another connection took the session over")
		h.fresh("stopped", until(2*time.Minute, &e))
		pass(90 * time.Second)
		h.broker.Close()
		pass(time.Hour)
		h.want(&e, "taken: another connection took the session over")
	})
}

// An operator ends sessions by what they are.
func TestEnd(t *testing.T) {
	bubble(t, func(h *house) {
		var e endings
		a := h.fresh("a", func(c *core.Hello) { c.Kick = e.of("a") })
		h.fresh("b", func(c *core.Hello) { c.Kick = e.of("b") })
		isA := func(s *core.Session) bool { return s.Origin().ClientID == "a" }
		if n := h.broker.End(core.EndAdmin, isA); n != 1 {
			t.Errorf("%d ended", n)
		}
		if n := h.broker.End(core.EndAdmin, isA); n != 0 {
			t.Errorf("%d ended again", n)
		}
		h.want(&e, "a: the session was ended by an administrator")
		_, err := h.say(a, h.note("t", "x"))
		h.wantError(err, core.ErrClosed)
	})
}
