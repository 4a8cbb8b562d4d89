package core_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// will adds one to a Hello.
func will(h *house, topic, payload string, delay time.Duration, edits ...func(*core.Message)) func(*core.Hello) {
	m := h.note(topic, payload, edits...)
	return func(c *core.Hello) { c.Will = &core.Will{Message: m, Delay: delay} }
}

// When a will is sent: at once, later, or never.
// It shows fault 89.
func TestWill(t *testing.T) {
	closing := func(r core.CloseReason) func(*house, *core.Session) {
		return func(_ *house, s *core.Session) { s.Close(r) }
	}
	takeOver := func(edits ...func(*core.Hello)) func(*house, *core.Session) {
		return func(h *house, _ *core.Session) { h.connect("a", edits...) }
	}
	lostThen := func(wait time.Duration, edits ...func(*core.Hello)) func(*house, *core.Session) {
		return func(h *house, s *core.Session) {
			s.Close(core.CloseLost)
			pass(wait)
			h.connect("a", edits...)
		}
	}
	const never = time.Duration(-1)
	for _, c := range []struct {
		title         string
		expiry, delay time.Duration
		end           func(*house, *core.Session)
		want          time.Duration // after end
	}{
		{"lost, no delay [MQTT-3.1.2-8]", time.Minute, 0, closing(core.CloseLost), 0},
		{"a good-bye deletes it [MQTT-3.1.2-10]", time.Minute, 0, closing(core.CloseNormal), never},
		{"a good-bye that asks for it", time.Minute, 0, closing(core.CloseWithWill), 0},
		{"the broker stops", time.Minute, 0, closing(core.CloseShutdown), 0},
		{"delayed", time.Minute, 10 * time.Second, closing(core.CloseLost), 10 * time.Second},
		{"delayed for longer than the session [MQTT-3.1.3-9]", 10 * time.Second, time.Minute, closing(core.CloseLost), 10 * time.Second},
		{"delayed, but the session ends at once", 0, time.Minute, closing(core.CloseLost), 0},
		{"delayed, session for ever", core.Forever, time.Minute, closing(core.CloseLost), time.Minute},
		{"delayed, resumed in time [MQTT-3.1.3-9]", time.Minute, 10 * time.Second, lostThen(9*time.Second, expiry(time.Minute)), never},
		{"delayed, a clean start ends the session", time.Minute, 10 * time.Second, lostThen(9*time.Second, clean), 0},
		{"resumed after it was sent", time.Minute, 0, lostThen(0, expiry(time.Minute)), 0},
		{"taken over, no delay", time.Minute, 0, takeOver(), 0},
		{"taken over in time, delayed", time.Minute, time.Second, takeOver(), never},
		{"taken over by a clean start, delayed", time.Minute, time.Second, takeOver(clean), 0},
		{"taken over, and the session was only the connection's", 0, time.Second, takeOver(), 0},
	} {
		t.Run(c.title, func(t *testing.T) {
			bubble(t, func(h *house) {
				box := h.listen("gone/a")
				s := h.fresh("a", expiry(c.expiry), will(h, "gone/a", "will", c.delay))
				c.end(h, s)
				if c.want > 0 {
					pass(c.want - time.Millisecond)
					box.want()
					pass(time.Millisecond)
				}
				if c.want != never {
					box.want("will")
				}
				pass(time.Hour)
				s.Close(core.CloseLost)
				box.want()
			})
		})
	}
}

// The will is its publisher's: stamped with its origin, its clock starts when
// it is sent, and names that only the broker writes are gone.
func TestWillIsStamped(t *testing.T) {
	bubble(t, func(h *house) {
		box := h.listen("w")
		s := h.fresh("a", will(h, "w", "will", time.Second, ttl(5*time.Second), func(m *core.Message) {
			m.Props.Headers = headerList("x-user", "forged", "note", "kept")
		}))
		id := s.ID()
		s.Close(core.CloseLost)
		pass(time.Second)
		d := box.want("will")[0]
		if d.Origin == nil || d.Origin.ClientID != "a" || d.Origin.Session != id {
			t.Errorf("origin %+v", d.Origin)
		}
		if left, ok := d.Remaining(time.Now()); !ok || left != 5*time.Second {
			t.Errorf("%v left of 5 s", left)
		}
		if _, forged := d.Props.Headers.Get("x-user"); forged || len(d.Props.Headers) != 1 {
			t.Errorf("headers %v", d.Props.Headers)
		}
	})
}

// A retained will stays, as any retained message.
func TestRetainedWill(t *testing.T) {
	bubble(t, func(h *house) {
		h.fresh("a", will(h, "w", "gone", 0, retain)).Close(core.CloseLost)
		m, err := h.fresh("b").Retained(h.topic("w"))
		h.must(err)
		if m == nil || string(m.Payload) != "gone" {
			t.Errorf("retained %v", m)
		}
	})
}

// A will is refused as its publisher's message would be, at connect, and again
// when it is sent, where that is counted. It shows fault 36.
func TestWillNeedsRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *house
		allowed := true
		policy := func(_ auth.Principal, a auth.Action, o auth.Object) error {
			if a != auth.Publish || o.Name != "w" {
				return nil
			}
			if !allowed {
				return errors.New("no more")
			}
			return nil
		}
		h = houseOn(t, local.New(quiet()), core.DefaultConfig(), policy)
		box := h.listen("w")
		h.fresh("a", will(h, "w", "1", 0)).Close(core.CloseLost)
		box.want("1")
		s := h.again("a", will(h, "w", "2", 0))
		allowed = false
		s.Close(core.CloseLost)
		box.want()
		if n := h.dropped("mqtt", core.DropNotAllowed); n != 1 {
			t.Errorf("%d counted, want 1", n)
		}
		_, _, err := h.broker.Connect(h.ctx, hello("b", will(h, "w", "3", 0)))
		h.wantError(err, core.ErrNotAllowed)
	})
}

// Many clients lost at once: each will is sent once.
// It shows fault 89.
func TestManyWills(t *testing.T) {
	bubble(t, func(h *house) {
		box := h.listen("w/#")
		for _, id := range []string{"a", "b", "c", "d"} {
			s := h.fresh(id, will(h, "w/"+id, id, time.Second))
			go s.Close(core.CloseLost)
			go s.Close(core.CloseLost)
		}
		pass(time.Second)
		if n := len(box.take()); n != 4 {
			t.Errorf("%d wills of 4 clients", n)
		}
	})
}

// Many clients are lost at once, each with a will: few are published at a time,
// and none is lost. It shows fault 89.
func TestWillsOfManyAtOnce(t *testing.T) {
	bubble(t, func(h *house) {
		const many = 20_000
		r := h.listen("will/#")
		var sessions []*core.Session
		for i := range many {
			s, _ := h.connect(strconv.Itoa(i), will(h, "will/"+strconv.Itoa(i), "lost", 0))
			sessions = append(sessions, s)
		}
		var wg sync.WaitGroup
		for _, s := range sessions {
			wg.Go(func() { s.Close(core.CloseLost) })
		}
		wg.Wait()
		topics := map[string]bool{}
		for _, d := range r.take() {
			topics[d.Topic.String()] = true
		}
		if len(topics) != many {
			t.Errorf("%d wills of %d came", len(topics), many)
		}
	})
}
