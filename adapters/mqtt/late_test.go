package mqtt

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"entrepot/core"
	"entrepot/core/local"
)

// lateEngine confirms when it is told to, as one that syncs to disk does.
type lateEngine struct {
	core.Engine
	mu   sync.Mutex
	held []func()
}

func (e *lateEngine) Publish(b *core.Batch, m *core.Message, done core.Done) {
	if done == nil {
		e.Engine.Publish(b, m, nil)
		return
	}
	fail := string(m.Payload) == "refuse me"
	e.Engine.Publish(b, m, func(routed bool, err error) {
		if fail {
			err = fmt.Errorf("store: %w", core.ErrFull)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.held = append(e.held, func() { done(routed, err) })
	})
}

// confirm lets the i-th held confirmation go.
func (e *lateEngine) confirm(i int) {
	e.mu.Lock()
	done := e.held[i]
	e.mu.Unlock()
	done()
}

func newLateTheatre(t *testing.T) (*theatre, *lateEngine) {
	log := slog.New(slog.DiscardHandler)
	s := newTheatre(t, testConfig())
	e := &lateEngine{Engine: local.New(log)}
	s.broker = core.NewBroker(core.DefaultConfig(), "test", e, testPolicy, log)
	s.server = New(s.cfg, core.NewRealms(s.broker), log)
	return s, e
}

// [MQTT-4.6.0-2] [MQTT-4.6.0-3] confirmations keep the order of the messages,
// in whatever order the store is done, and refusals their place.
// It shows fault 106.
func TestLateConfirmations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := newLateTheatre(t)
		defer s.end()
		s.must("s> connect id=s", "s< connack ...", "s> subscribe id=1 f=t", "s< suback ...",
			"a> connect id=a problem=0", "a< connack ...",
			"a> publish topic=t qos=1 id=1", "a> publish topic=t qos=2 id=2", "a> publish topic=refused/x qos=1 id=3",
			"a> publish topic=t qos=1 id=4 payload=\"refuse me\"", "a> publish topic=$delayed/x/x qos=2 id=5", "a> pingreq",
			"a< pingresp", "a< nothing")
		e.confirm(2)
		e.confirm(1)
		s.must("a< nothing")
		e.confirm(0)
		s.must("a< puback id=1", "a< pubrec id=2", "a< puback id=3 code=87", "a< puback id=4 code=97", "a< pubrec id=5 code=90",
			"a> publish topic=t qos=1 id=6", "a< nothing")
		e.confirm(3)
		s.must("a< puback id=6", "a< nothing")
	})
}

// A publisher that comes back before its QoS 2 message is confirmed gets the
// outcome of the first try, whatever it is, and the message is there once.
func TestLateConfirmationAfterReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := newLateTheatre(t)
		defer s.end()
		s.must("s> connect id=s", "s< connack ...", "s> subscribe id=1 f=t q=0", "s< suback ...",
			"a> connect id=a session=100 problem=0", "a< connack ...",
			"a> publish topic=t qos=2 id=1 payload=x", "a> publish topic=t qos=2 id=2 payload=\"refuse me\"", "a! drop",
			"b> connect id=a session=100 problem=0", "b< connack present ...",
			"b> publish topic=t qos=2 id=1 dup payload=x", "b> publish topic=t qos=2 id=2 dup payload=\"refuse me\"", "b< nothing")
		e.confirm(0)
		s.must("b< pubrec id=1")
		e.confirm(1)
		s.must("b< pubrec id=2 code=97", "b> pubrel id=1", "b< pubcomp id=1",
			"b> publish topic=t qos=2 id=2 payload=\"refuse me\"")
		e.confirm(2)
		s.must("b< pubrec id=2 code=97", "s< publish topic=t payload=x", "s< publish topic=t payload=\"refuse me\"",
			"s< publish topic=t payload=\"refuse me\"", "s< nothing")
	})
}

// Before MQTT 5 a late refusal ends the connection.
func TestLateRefusalBefore5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := newLateTheatre(t)
		defer s.end()
		s.must("a> connect id=a v=4 clean", "a< connack", "a> publish topic=t qos=1 id=1 payload=\"refuse me\"", "a< nothing")
		e.confirm(0)
		s.must("a< closed")
	})
}
