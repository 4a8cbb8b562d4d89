package mqtt

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
)

// gauges are what the broker's alarms ask.
type gauges struct{ free, used atomic.Uint64 }

// newShortTheatre has a disk, and alarms that go by gauges: marks of 256 MiB of
// disk and 600 MiB of memory.
func newShortTheatre(t *testing.T) (s *theatre, g *gauges, end func()) {
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open("data", store.Options{Disk: store.MemoryDisk()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.Open(log, st, "test")
	if err != nil {
		t.Fatal(err)
	}
	s = newTheatre(t, testConfig())
	s.broker = core.NewBroker(core.DefaultConfig(), "test", e, nil, log)
	if err := s.broker.Restore(st); err != nil {
		t.Fatal(err)
	}
	g = &gauges{}
	g.free.Store(1 << 30)
	s.broker.Probe(core.Probes{
		DiskFree:    func() (uint64, error) { return g.free.Load(), nil },
		MemoryUsed:  func(uint64) uint64 { return g.used.Load() },
		MemoryLimit: 1000 << 20,
	})
	s.server = New(s.cfg, core.NewRealms(s.broker), log)
	return s, g, func() {
		s.end()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// While the disk is nearly full a message for it is refused: MQTT 5 with 0x97
// and the figures (3.4.2.1), before that by closing. Subscribers go on.
// It shows fault 71.
func TestDiskAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, end := newShortTheatre(t)
		defer end()
		const text = `reason="disk space: 120 MiB free, mark 256 MiB: full"`
		s.must("w> connect id=w", "w< connack ...", "w> subscribe id=1 f=$queue/work q=1", "w< suback ...",
			"a> connect id=a", "a< connack ...", "a> publish topic=$queue/work qos=1 id=1 payload=1", "a< puback id=1",
			"b> connect id=b v=4 clean", "b< connack")
		g.free.Store(120 << 20)
		s.must("wait 1s",
			"a> publish topic=$queue/work qos=1 id=2 payload=2", "a< puback id=2 code=97 "+text,
			"a> publish topic=$queue/work qos=2 id=3 payload=3", "a< pubrec id=3 code=97 "+text,
			"a> publish topic=t qos=1 id=4 retain payload=4", "a< puback id=4 code=97 "+text,
			"a> publish topic=$queue/work payload=5",
			"b> publish topic=$queue/work qos=1 id=1 payload=6", "b< closed",
			"n> connect id=n session=100", "n< connack code=88 ...",
			"w< publish topic=$queue/work qos=1 id=1 payload=1 ...", "w> puback id=1",
			"w< publish topic=$queue/work payload=5 ...", "w< nothing")
		g.free.Store(1 << 30)
		s.must("wait 1s", "a> publish topic=$queue/work qos=1 id=2 payload=7", "a< puback id=2",
			"w< publish topic=$queue/work qos=1 id=2 payload=7 ...", "w> puback id=2")
	})
}

// While memory is short a client that publishes is read slowly, and its
// acknowledgements come through nevertheless.
// It shows fault 87.
func TestMemoryAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, end := newShortTheatre(t)
		defer end()
		s.must("a> connect id=a", "a< connack ...", "a> subscribe id=1 f=in q=1", "a< suback ...",
			"b> connect id=b", "b< connack ...")
		g.used.Store(700 << 20)
		s.must("wait 1s")
		s.must("b> publish topic=in payload=1 qos=1 id=1", "b< puback id=1")
		s.must("b> pingreq", "wait 900ms", "b< nothing", "wait 200ms", "b< pingresp",
			"a< publish topic=in qos=1 id=1 payload=1 ...", "a> publish topic=out payload=2", "a> puback id=1", "wait 110ms")
		if n := s.broker.Stats().Engine.Unsettled; n != 0 {
			t.Errorf("the acknowledgement of one who publishes was not read: %d unsettled", n)
		}
		g.used.Store(0)
		s.must("wait 2s")
		s.must("b> publish topic=in payload=4", "b> publish topic=in payload=5", "b> pingreq", "b< pingresp")
	})
}
