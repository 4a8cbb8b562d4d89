package core_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// within polls until ok, or fails the test.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// outage has the disk fail while f runs, and returns when the store works again.
func (c *bunker) outage(f func()) {
	c.Helper()
	c.disk.Fail("sync", ".log", syscall.EIO)
	failed := make(chan error, 1)
	c.store.Commit(&store.Batch{}, true, func(err error) { failed <- err })
	if err := <-failed; err == nil {
		c.Fatal("the store does not fail")
	}
	f()
	c.disk.Heal()
	within(c.T, "the store works again", func() bool { return c.store.Err() == nil })
}

// sayDown publishes while the disk may have failed.
func (h *house) sayDown(s *core.Session, m *core.Message) error {
	h.Helper()
	done := make(chan error, 1)
	s.Publish(nil, m, func(_ bool, err error) { done <- err })
	return <-done
}

func (c *bunker) wantFull(what string, err error) {
	c.Helper()
	if !errors.Is(err, core.ErrFull) {
		c.Errorf("%s: %v, want ErrFull", what, err)
	}
}

// What changed while the disk had failed is on it when the store works again,
// and a power cut right after does not bring back what was before.
func TestChangesDuringOutage(t *testing.T) {
	forever := expiry(core.Forever)
	for _, x := range []struct {
		title  string
		before func(*bunker) *core.Session // what the disk has
		change func(*bunker, *core.Session)
		after  func(*bunker)
	}{
		{"a client leaves, and its session's time runs",
			func(c *bunker) *core.Session { return c.fresh("a", expiry(10*time.Minute)) },
			func(_ *bunker, s *core.Session) { s.Close(core.CloseLost) },
			func(c *bunker) {
				pass(11 * time.Minute)
				if n := c.broker.Stats().Sessions; n != 0 {
					c.Errorf("%d sessions", n)
				}
			}},
		{"a client says good-bye, and leaves no will",
			func(c *bunker) *core.Session { return c.fresh("a", forever, will(&c.house, "w", "will", 0, retain)) },
			func(_ *bunker, s *core.Session) { s.Close(core.CloseNormal) },
			func(c *bunker) {
				c.again("a", forever)
				if v := c.retainedAt(c.fresh("b"), "w"); v != "" {
					c.Errorf("will %q", v)
				}
			}},
		{"a client is lost, and its will waits",
			func(c *bunker) *core.Session {
				return c.fresh("a", forever, will(&c.house, "w", "will", time.Hour, retain))
			},
			func(_ *bunker, s *core.Session) { s.Close(core.CloseLost) },
			func(c *bunker) {
				b := c.fresh("b")
				if v := c.retainedAt(b, "w"); v != "" {
					c.Errorf("will %q before its time", v)
				}
				pass(time.Hour)
				if v := c.retainedAt(b, "w"); v != "will" {
					c.Errorf("will %q", v)
				}
			}},
		{"a session ends",
			func(c *bunker) *core.Session {
				s := c.fresh("a", forever)
				c.lasting(s, "a", "t")
				c.must(c.apply(s, noteOp("k", "v")))
				return s
			},
			func(_ *bunker, s *core.Session) {
				s.SetExpiry(0)
				s.Close(core.CloseNormal)
			},
			func(c *bunker) {
				if n := c.broker.Stats(); n.Sessions != 0 || n.Engine.Queues != 0 {
					c.Errorf("left behind: %+v", n)
				}
				c.wantNotes(c.fresh("a", forever))
			}},
		{"a last value is cleared, another refused, one expires",
			func(c *bunker) *core.Session {
				s := c.fresh("a", plain)
				for _, topic := range []string{"cleared", "kept"} {
					c.must(c.sayDown(s, c.note(topic, topic, retain, durable)))
				}
				c.must(c.sayDown(s, c.note("expired", "x", retain, durable, ttl(100*time.Millisecond))))
				return s
			},
			func(c *bunker, s *core.Session) {
				_ = c.sayDown(s, c.note("cleared", "", retain, durable))
				c.wantFull("new value", c.sayDown(s, c.note("kept", "new", retain, durable)))
				within(c.T, "expiry", func() bool { return c.broker.Stats().Retained == 1 })
			},
			func(c *bunker) {
				s := c.fresh("b", plain)
				if n, v := c.broker.Stats().Retained, c.retainedAt(s, "kept"); n != 1 || v != "kept" {
					c.Errorf("%d retained, kept is %q", n, v)
				}
			}},
		{"a session is refused",
			func(c *bunker) *core.Session { return nil },
			func(c *bunker, _ *core.Session) {
				_, _, err := c.broker.Connect(c.ctx, hello("new", forever))
				c.wantFull("a new lasting session", err)
				if n := c.broker.Stats().Sessions; n != 0 {
					c.Errorf("%d sessions", n)
				}
			},
			func(c *bunker) { c.fresh("new", forever) }},
	} {
		t.Run(x.title, func(t *testing.T) {
			c := openBunker(t, store.MemoryDisk(), store.Options{RetryEvery: 5 * time.Millisecond})
			s := x.before(c)
			c.must(c.store.Sync())
			c.outage(func() { x.change(c, s) })
			d := c.disk.Crash(0, 1)
			c.close()
			synctest.Test(t, func(t *testing.T) {
				c := openBunker(t, d, store.Options{})
				defer c.close()
				x.after(c)
			})
		})
	}
}

// Failure after failure: what was confirmed last is what a power cut leaves.
func TestManyOutages(t *testing.T) {
	c := openBunker(t, store.MemoryDisk(), store.Options{RetryEvery: 2 * time.Millisecond})
	s := c.fresh("a", expiry(core.Forever))
	value := ""
	for i := range 10 {
		text := string(rune('a' + i))
		if c.sayDown(s, c.note("t", text, retain, durable)) == nil {
			value = text
		}
		c.outage(func() {
			c.wantFull("value", c.sayDown(s, c.note("t", "refused", retain, durable)))
		})
	}
	d := c.disk.Crash(0, 1)
	c.close()
	c = openBunker(t, d, store.Options{})
	defer c.close()
	s = c.again("a", expiry(core.Forever))
	if got := c.retainedAt(s, "t"); got != value {
		t.Errorf("last value %q, want %q", got, value)
	}
}
