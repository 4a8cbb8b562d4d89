package core_test

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
)

// cellar is a house on a disk that can be cut off and can fail.
type cellar struct {
	*house
	disk   *store.Disk
	store  *store.Store
	states chan error
}

func openCellar(t *testing.T, d *store.Disk) *cellar {
	t.Helper()
	st, err := store.Open("data", store.Options{Disk: d, RetryEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.Open(quiet(), st, "realm")
	if err != nil {
		t.Fatal(err)
	}
	c := &cellar{houseOn(t, e, core.DefaultConfig(), nil), d, st, make(chan error, 16)}
	c.must(c.broker.Restore(st))
	st.Watch(func(err error) { c.states <- err })
	return c
}

// cut is the same after a power cut that kept only what was synced.
func (c *cellar) cut() *cellar {
	c.Helper()
	d := c.disk.Crash(0, 1)
	c.close()
	return openCellar(c.T, d)
}

func (c *cellar) close() {
	c.Helper()
	c.broker.Close()
	c.must(c.store.Close())
}

func (c *cellar) state(works bool) {
	c.Helper()
	select {
	case err := <-c.states:
		if works != (err == nil) {
			c.Fatalf("state %v", err)
		}
	case <-time.After(20 * time.Second):
		c.Fatal("no change of state")
	}
}

// keep waits until the notes are on the disk, or refused.
func (c *cellar) keep(s *core.Session, notes ...core.Note) error {
	c.Helper()
	done := make(chan error, 1)
	c.must(s.Keep(notes, func(err error) { done <- err }))
	return <-done
}

func (c *cellar) wantNotes(s *core.Session, want map[string]string) {
	c.Helper()
	got := map[string]string{}
	c.must(s.Notes(nil, func(key, value []byte) { got[string(key)] = string(value) }))
	if !maps.Equal(got, want) {
		c.Fatalf("notes %v, want %v", got, want)
	}
}

func note(key, value string) core.Note {
	n := core.Note{Key: []byte(key)}
	if value != "" {
		n.Value = []byte(value)
	}
	return n
}

// What is kept is there after a power cut, what was removed is not, and nothing
// is left of a session that ended.
func TestKeep(t *testing.T) {
	c := openCellar(t, store.MemoryDisk())
	s := c.fresh("a")
	c.must(c.keep(s, note("x/1", "one"), note("x/2", "two"), note("y", "three")))
	c.must(c.keep(s, note("x/1", "")))
	other := c.fresh("b")
	c.must(c.keep(other, note("x/1", "other")))
	c = c.cut()
	s = c.again("a")
	c.wantNotes(s, map[string]string{"x/2": "two", "y": "three"})
	other = c.again("b")
	c.wantNotes(other, map[string]string{"x/1": "other"})
	fresh := c.fresh("a", clean)
	c.wantNotes(fresh, map[string]string{})
	if err := s.Keep([]core.Note{note("z", "late")}, nil); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a connection that was taken over keeps notes: %v", err)
	}
	other.SetExpiry(0)
	c.must(c.store.Sync())
	c.wantNotes(other, map[string]string{})
	c = c.cut()
	defer c.close()
	c.wantNotes(c.fresh("b"), map[string]string{})
}

func TestKeepWithoutADisk(t *testing.T) {
	bubble(t, func(h *house) {
		if err := h.fresh("a").Keep([]core.Note{note("x", "1")}, nil); !errors.Is(err, core.ErrUnsupported) {
			t.Errorf("error %v", err)
		}
	})
}

// A message and its notes are on the disk together, retained or not, or neither
// is.
func TestPublishNoted(t *testing.T) {
	for _, retained := range []bool{false, true} {
		t.Run(fmt.Sprint("retained ", retained), func(t *testing.T) {
			c := openCellar(t, store.MemoryDisk())
			s := c.fresh("a")
			_, err := s.DeclareQueue(c.ctx, core.QueueSpec{Key: sessionQueue("a"), Exclusive: true, Durable: true})
			c.must(err)
			c.bind(s, "a", "t/#")
			send := func(n string) error {
				done := make(chan error, 1)
				m := c.note("t/1", n, func(m *core.Message) { m.Guarantee, m.Retain = core.Once, retained })
				s.PublishNoted(nil, m, []core.Note{note("in", n)}, func(_ bool, err error) { done <- err })
				return <-done
			}
			c.must(send("1"))
			c = c.cut()
			s = c.again("a")
			c.wantNotes(s, map[string]string{"in": "1"})
			pull, err := s.Consume(c.ctx, sessionQueue("a"), core.ConsumeOptions{Pull: true}, nil)
			c.must(err)
			if d, ok := pull.Get(); !ok || string(d.Payload) != "1" || d.Guarantee != core.Once {
				t.Errorf("got %+v, %v", d, ok)
			}
			c.disk.Fail("sync", ".log", syscall.EIO)
			if err := send("2"); !errors.Is(err, core.ErrFull) || err.Error() != "disk: store failed: input/output error" {
				t.Errorf("a failing disk: %v", err)
			}
			c.state(false)
			c.disk.Heal()
			c.state(true)
			c.close()
		})
	}
}

// wholeState has the notes that are in memory.
type wholeState map[string]string

func (w wholeState) EachNote(f func(key, value []byte)) {
	for k, v := range w {
		f([]byte(k), []byte(v))
	}
}

// When the disk works again it says what memory does: sessions that came, went
// and changed meanwhile, and the notes of those whose adapter has them.
func TestSessionsOverAFailure(t *testing.T) {
	c := openCellar(t, store.MemoryDisk())
	s := c.fresh("a")
	s.SetState(wholeState{"x": "memory"})
	c.must(c.keep(s, note("x", "disk"), note("y", "disk")))
	gone := c.fresh("gone")
	c.must(c.keep(gone, note("x", "1")))
	left := c.fresh("left")
	c.must(c.keep(left, note("x", "kept")))
	c.disk.Fail("write", ".log", syscall.ENOSPC)
	if err := c.keep(s, note("x", "refused")); !errors.Is(err, core.ErrFull) {
		t.Fatalf("a failing disk: %v", err)
	}
	c.state(false)
	gone.SetExpiry(0)
	gone.Close(core.CloseNormal)
	left.SetExpiry(core.Forever)
	if _, _, err := c.broker.Connect(c.ctx, hello("new")); !errors.Is(err, core.ErrFull) {
		t.Errorf("a session that lasts, on a failing disk: %v", err)
	}
	if s, _, err := c.broker.Connect(c.ctx, hello("short", expiry(0))); err != nil {
		t.Errorf("a session that does not last: %v", err)
	} else {
		s.Close(core.CloseNormal)
	}
	c.disk.Heal()
	c.state(true)
	c = c.cut()
	defer c.close()
	c.wantNotes(c.again("a"), map[string]string{"x": "memory"})
	c.wantNotes(c.fresh("gone"), map[string]string{})
	c.wantNotes(c.again("left"), map[string]string{"x": "kept"})
}
