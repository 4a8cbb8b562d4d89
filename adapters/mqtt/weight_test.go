package mqtt

import (
	"strings"
	"testing"
	"testing/synctest"

	"entrepot/core"
)

// [MQTT-4.9.0-2] what a client has not confirmed is bounded in bytes too; one
// message may always be out, and what waits comes in order, also after a
// reconnect.
func TestUnackedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.UnackedBytes = 2 * pageSize
		s := newTheatre(t, cfg)
		defer s.end()
		large, medium := strings.Repeat("x", 5*pageSize), strings.Repeat("y", pageSize)
		s.must("a> connect id=a", "a< connack ...", "a> subscribe id=1 f=t q=2", "a< suback id=1 codes=02",
			"p> connect id=p", "p< connack ...")
		for i, payload := range []string{large, medium, medium, medium, "small"} {
			line := "p> publish topic=t qos=1 id=# payload=" + payload
			if i == 1 {
				line = strings.Replace(line, "qos=1", "qos=2", 1)
			}
			line = strings.Replace(line, "#", string(rune('1'+i)), 1)
			s.must(line)
			if i == 1 {
				s.must("p< pubrec id=2", "p> pubrel id=2", "p< pubcomp id=2")
			} else {
				s.must(strings.Replace("p< puback id=#", "#", string(rune('1'+i)), 1))
			}
		}
		s.must("a< publish topic=t qos=1 id=1 payload="+large, "a< nothing", "a> puback id=1",
			"a< publish topic=t qos=2 id=2 payload="+medium, "a< publish topic=t qos=1 id=3 payload="+medium, "a< nothing",
			"a> pubrec id=2", "a< pubrel id=2", "a> pubcomp id=2",
			"a< publish topic=t qos=1 id=4 payload="+medium, "a< nothing",
			"a> puback id=3", "a< publish topic=t qos=1 id=5 payload=small", "a> puback id=4", "a> puback id=5", "a< nothing")
	})
}

// [MQTT-4.4.0-1] a session that goes on counts what it sends again, and only that,
// over a reconnect.
func TestUnackedBytesOverAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.UnackedBytes = 2 * pageSize
		s := newTheatre(t, cfg)
		defer s.end()
		medium := strings.Repeat("y", pageSize)
		s.must("a> connect id=a session=100", "a< connack ...", "a> subscribe id=1 f=t q=1", "a< suback id=1 codes=01",
			"p> connect id=p", "p< connack ...")
		for _, id := range []string{"1", "2", "3", "4"} {
			s.must("p> publish topic=t qos=1 id="+id+" payload="+medium, "p< puback id="+id)
		}
		s.must("a< publish topic=t qos=1 id=1 payload="+medium, "a< publish topic=t qos=1 id=2 payload="+medium, "a< nothing",
			"limited unacked_bytes 1", "a! drop",
			"b> connect id=a session=100", "b< connack present ...",
			"b< publish topic=t qos=1 id=1 dup payload="+medium, "b< publish topic=t qos=1 id=2 dup payload="+medium, "b< nothing",
			"b> puback id=1", "b< publish topic=t qos=1 id=3 payload="+medium, "b< nothing", "b! drop",
			"c> connect id=a session=100", "c< connack present ...",
			"c< publish topic=t qos=1 id=2 dup payload="+medium, "c< publish topic=t qos=1 id=3 dup payload="+medium, "c< nothing",
			"c> puback id=2", "c< publish topic=t qos=1 id=4 payload="+medium, "c> puback id=3", "c> puback id=4", "c< nothing")
	})
}

// The sum follows each parcel, however it goes.
func TestWeightOfAFlight(t *testing.T) {
	var f flight
	m := &core.Message{Payload: make([]byte, 3*pageSize+1)}
	var all []*parcel
	for range 4 {
		p := f.add()
		p.stage = sent2
		f.load(p, m)
		f.load(p, m) // again: counted once
		all = append(all, p)
	}
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() {}, 12},
		{func() { f.unload(all[0]) }, 9},
		{func() { f.drop(all[0]) }, 9},
		{func() { f.release(all[1]) }, 6},
		{func() { f.drop(all[1]) }, 6},
		{func() { f.drop(all[2]) }, 3},
		{f.unloadAll, 0},
		{func() { f.drop(all[3]) }, 0},
	} {
		if step.do(); f.pages != step.want {
			t.Errorf("step %d: %d pages, want %d", i, f.pages, step.want)
		}
	}
}
