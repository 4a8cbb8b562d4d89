package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/local"
)

// gauges are probes that a test sets.
type gauges struct {
	free, used atomic.Uint64
	broken     atomic.Bool
}

var errGauge = errors.New("no such device")

func (g *gauges) probes() core.Probes {
	return core.Probes{
		DiskFree: func() (uint64, error) {
			if g.broken.Load() {
				return 0, errGauge
			}
			return g.free.Load(), nil
		},
		MemoryUsed:  func(uint64) uint64 { return g.used.Load() },
		MemoryLimit: 1000 << 20,
	}
}

// watched runs a test in a house whose alarms ask gauges: the marks are 256 MiB
// of disk and 600 MiB of memory.
func watched(t *testing.T, f func(*house, *gauges)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := houseOn(t, local.New(quiet()), core.DefaultConfig(), nil)
		g := &gauges{}
		g.free.Store(1 << 30)
		h.broker.Probe(g.probes())
		defer h.broker.Close()
		f(h, g)
	})
}

// on lists the alarms that are on.
func on(h *house) []core.AlarmKind {
	var kinds []core.AlarmKind
	for _, a := range h.broker.Alarms() {
		if a.On {
			kinds = append(kinds, a.Kind)
		}
	}
	return kinds
}

// An alarm goes on beyond its mark and off when it is well past it.
func TestAlarmMarks(t *testing.T) {
	for _, c := range []struct {
		title string
		set   func(g *gauges, mib uint64)
		kind  core.AlarmKind
		steps []uint64 // MiB
		want  []bool
	}{
		{"disk", func(g *gauges, mib uint64) { g.free.Store(mib << 20) }, core.DiskAlarm,
			[]uint64{256, 255, 256, 319, 320, 257, 0, 1024}, []bool{false, true, true, true, false, false, true, false}},
		{"memory", func(g *gauges, mib uint64) { g.used.Store(mib << 20) }, core.MemoryAlarm,
			[]uint64{600, 601, 600, 541, 540, 599, 2000, 0}, []bool{false, true, true, true, false, false, true, false}},
	} {
		t.Run(c.title, func(t *testing.T) {
			watched(t, func(h *house, g *gauges) {
				var got []bool
				for _, mib := range c.steps {
					c.set(g, mib)
					pass(time.Second)
					got = append(got, slices.Contains(on(h), c.kind))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("alarm %v, want %v", got, c.want)
				}
			})
		})
	}
}

// Who watches is told of each change once, in order, and of what is on already.
func TestWatchAlarms(t *testing.T) {
	watched(t, func(h *house, g *gauges) {
		var first, late []string
		note := func(to *[]string) func(core.Alarm) {
			return func(a core.Alarm) {
				state := "off"
				if a.On {
					state = "on"
				}
				*to = append(*to, state+" "+a.String())
			}
		}
		stop := h.broker.WatchAlarms(note(&first))
		g.free.Store(120 << 20)
		pass(3 * time.Second)
		stopLate := h.broker.WatchAlarms(note(&late))
		g.used.Store(700 << 20)
		pass(time.Second)
		stopLate()
		g.free.Store(1 << 30)
		pass(time.Second)
		stop()
		g.used.Store(0)
		pass(time.Second)
		disk, memory := "on disk space: 120 MiB free, mark 256 MiB", "on memory: 700 MiB in use, mark 600 MiB"
		if want := []string{disk, memory, "off disk space: 1024 MiB free, mark 256 MiB"}; !slices.Equal(first, want) {
			t.Errorf("told %q, want %q", first, want)
		}
		if want := []string{disk, memory}; !slices.Equal(late, want) {
			t.Errorf("who came later was told %q, want %q", late, want)
		}
		if len(on(h)) > 0 {
			t.Errorf("%v on at the end", on(h))
		}
	})
}

// A probe that fails leaves the alarm as it is.
func TestAlarmProbeFails(t *testing.T) {
	watched(t, func(h *house, g *gauges) {
		g.free.Store(1 << 20)
		pass(time.Second)
		g.broken.Store(true)
		g.free.Store(1 << 30)
		pass(time.Second)
		if !slices.Contains(on(h), core.DiskAlarm) {
			t.Error("off, and nobody knows what is free")
		}
		g.broken.Store(false)
		pass(time.Second)
		if len(on(h)) > 0 {
			t.Errorf("%v on", on(h))
		}
	})
}

// Without a mark, a disk or a limit nobody looks.
func TestAlarmNotWatched(t *testing.T) {
	all := func(*core.Config, *core.Probes) {}
	for _, c := range []struct {
		title        string
		edit         func(*core.Config, *core.Probes)
		disk, memory bool
	}{
		{"all is there", all, true, true},
		{"no marks", func(c *core.Config, _ *core.Probes) { c.DiskMark, c.MemoryMark = 0, 0 }, false, false},
		{"no disk", func(_ *core.Config, p *core.Probes) { p.DiskFree = nil }, false, true},
		{"memory is not known", func(_ *core.Config, p *core.Probes) { p.MemoryLimit = 0 }, true, false},
	} {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gauges{}
				g.used.Store(2000 << 20)
				cfg, p := core.DefaultConfig(), g.probes()
				c.edit(&cfg, &p)
				h := houseOn(t, local.New(quiet()), cfg, nil)
				h.broker.Probe(p)
				defer h.broker.Close()
				pass(time.Second)
				for i, want := range []bool{c.disk, c.memory} {
					if a := h.broker.Alarms()[i]; a.Watched != want || a.On != want {
						t.Errorf("%v: %+v", a.Kind, a)
					}
				}
			})
		})
	}
}

// Under the memory alarm a connection that publishes is read slowly; one that
// holds deliveries is read sooner, as it may settle them.
// It shows fault 87.
func TestPace(t *testing.T) {
	watched(t, func(h *house, g *gauges) {
		s := h.fresh("a")
		pace := func(also ...*core.Session) string {
			wait, slow := s.Pace(slices.Values(also))
			return fmt.Sprint(wait, " ", slow)
		}
		want := func(when, want, got string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		h.tell(s, "t", "1")
		want("no alarm", "0s false", pace())
		g.used.Store(700 << 20)
		pass(time.Second)
		want("published before the alarm", "1s true", pace())
		want("published nothing since", "0s true", pace())
		h.tell(s, "t", "2")
		want("published", "1s true", pace())
		s.Spend(0, 0)
		want("sent something else that is kept", "1s true", pace())
		want("and nothing since", "0s true", pace())

		box := h.holding()
		c := h.subscribe(s, "a", "mine", box)
		h.tell(h.fresh("p"), "mine", "x")
		held := box.want("x")
		want("holds, but publishes nothing", "0s true", pace())
		h.tell(s, "t", "3")
		want("publishes and holds", "100ms true", pace())
		h.must(c.Settle(nil, core.Ack, held[0].Seq))
		h.tell(s, "t", "4")
		want("settled", "1s true", pace())

		other := h.fresh("durable")
		h.subscribe(other, "durable", "mine too", h.holding())
		h.tell(h.fresh("q"), "mine too", "y")
		pass(0)
		h.tell(s, "t", "5")
		want("another session of the connection holds", "100ms true", pace(other))
		g.used.Store(0)
		pass(time.Second)
		h.tell(s, "t", "6")
		want("the alarm is over", "0s false", pace())
	})
}

// While the disk alarm is on, what fills the disk is refused with the figures;
// what empties it, and what is in memory, goes on.
// It shows fault 71.
func TestDiskAlarm(t *testing.T) {
	inBunker(t, func(c *bunker) {
		h := &c.house
		g := &gauges{}
		g.free.Store(1 << 30)
		h.broker.Probe(g.probes())
		s := h.fresh("a", expiry(core.Forever))
		c.lasting(s, "a", "t")
		h.tell(s, "kept", "old", retain, durable)
		h.tell(s, "cleared", "old", retain, durable)
		h.tell(s, "t", "before", durable)
		h.must(h.apply(s, noteOp("k", "v")))
		g.free.Store(120 << 20)
		pass(time.Second)

		const reason = "disk space: 120 MiB free, mark 256 MiB"
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, core.ErrFull) || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := h.say(s, h.note("t", "refused", durable))
		refused("durable message", err)
		_, err = h.say(s, h.note("kept", "new", retain))
		refused("last value", err)
		refused("transaction", h.apply(s, core.Op{Message: h.note("t", "refused", durable)}, noteOp("k", "new")))
		_, _, err = h.broker.Connect(h.ctx, hello("new", expiry(core.Forever)))
		refused("a new session that lasts", err)

		h.fresh("short", plain).Close(core.CloseNormal)
		h.tell(s, "cleared", "", retain)
		h.tell(s, "elsewhere", "nobody keeps it", durable)
		h.tell(s, "t", "in memory")
		h.must(h.apply(s, noteOp("k", "")))
		s.Close(core.CloseLost)
		s = h.again("a", expiry(core.Forever))
		box := h.holding()
		con := h.consume(s, "a", box)
		got := box.want("before", "in memory")
		h.must(con.Settle(nil, core.Ack, got[0].Seq, got[1].Seq))

		g.free.Store(1 << 30)
		pass(time.Second)
		h.tell(s, "t", "after", durable)
		h.tell(s, "kept", "new", retain, durable)
		c.crash(0, 0)
		s = h.again("a", expiry(core.Forever))
		box = h.inbox()
		h.consume(s, "a", box)
		box.want("after")
		if kept, gone := h.retainedAt(s, "kept"), h.retainedAt(s, "cleared"); kept != "new" || gone != "" {
			t.Errorf("last values %q and %q", kept, gone)
		}
		h.wantNotes(s)
	})
}

// Who is told of the disk alarm can still keep back what would be refused.
func TestDiskAlarmIsToldFirst(t *testing.T) {
	inBunker(t, func(c *bunker) {
		h := &c.house
		g := &gauges{}
		g.free.Store(1 << 30)
		h.broker.Probe(g.probes())
		s := h.fresh("a", expiry(core.Forever))
		c.lasting(s, "a", "t")
		var told []error
		stop := h.broker.WatchAlarms(func(core.Alarm) {
			s.Publish(nil, h.note("t", "x", durable), func(_ bool, err error) { told = append(told, err) })
		})
		defer stop()
		for _, free := range []uint64{120 << 20, 1 << 30} {
			g.free.Store(free)
			pass(time.Second)
		}
		if len(told) != 2 || told[0] != nil || told[1] != nil {
			t.Errorf("publishing when told: %v", told)
		}
	})
}
