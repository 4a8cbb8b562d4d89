package core_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
)

// bunker is a house whose durable things are on a disk in memory, which can lose
// power.
type bunker struct {
	house
	disk  *store.Disk
	store *store.Store
	// prepare is done with every broker before it is restored; nil: nothing.
	prepare func(*core.Broker)
}

// openBunker begins a broker's life on d.
func openBunker(t *testing.T, d *store.Disk, o store.Options) *bunker {
	t.Helper()
	return openPrepared(t, d, o, nil)
}

func openPrepared(t *testing.T, d *store.Disk, o store.Options, prepare func(*core.Broker)) *bunker {
	t.Helper()
	o.Disk = d
	st, err := store.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.Open(quiet(), st, "realm")
	if err != nil {
		t.Fatal(err)
	}
	c := &bunker{house{t, context.Background(), e, core.NewBroker(core.DefaultConfig(), "realm", e, nil, quiet())}, d, st, prepare}
	if prepare != nil {
		prepare(c.broker)
	}
	c.must(c.broker.Restore(st))
	return c
}

// inBunker runs a test in a bubble, on an empty disk.
func inBunker(t *testing.T, f func(*bunker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := openBunker(t, store.MemoryDisk(), store.Options{})
		defer func() { c.close() }()
		f(c)
	})
}

func (c *bunker) close() {
	c.Helper()
	c.broker.Close()
	c.must(c.store.Close())
}

// restart stops in order and begins again after a time.
func (c *bunker) restart(later time.Duration) {
	c.Helper()
	c.close()
	pass(later)
	*c = *openPrepared(c.T, c.disk, store.Options{}, c.prepare)
}

// crash loses power, keeps of what was not synced a part in percent, and begins
// again after a time.
func (c *bunker) crash(percent int, later time.Duration) {
	c.Helper()
	d := c.disk.Crash(percent, 7)
	c.close()
	pass(later)
	*c = *openPrepared(c.T, d, store.Options{}, c.prepare)
}

// ends are the two ways in which a broker's life ends.
func ends() map[string]func(*bunker, time.Duration) {
	return map[string]func(*bunker, time.Duration){
		"restart": (*bunker).restart,
		"crash":   func(c *bunker, later time.Duration) { c.crash(0, later) },
	}
}

// eachEnd runs a test once for each way.
func eachEnd(t *testing.T, f func(c *bunker, end func(later time.Duration))) {
	t.Helper()
	for name, end := range ends() {
		t.Run(name, func(t *testing.T) {
			inBunker(t, func(c *bunker) { f(c, func(later time.Duration) { end(c, later) }) })
		})
	}
}

// lasts is a session's queue that outlives the broker.
func (c *bunker) lasting(s *core.Session, id, filter string) {
	c.Helper()
	_, err := s.DeclareQueue(c.ctx, core.QueueSpec{Key: sessionQueue(id), Exclusive: true, Durable: true})
	c.must(err)
	c.bind(s, id, filter)
}

func durable(m *core.Message) { m.Guarantee = core.Durable }

// apply does ops and returns what Done said.
func (h *house) apply(s *core.Session, ops ...core.Op) error {
	h.Helper()
	done := make(chan error, 1)
	s.Apply(nil, ops, func(_ bool, err error) { done <- err })
	return <-done
}

func noteOp(key, value string) core.Op {
	n := &core.Note{Key: []byte(key)}
	if value != "" {
		n.Value = []byte(value)
	}
	return core.Op{Note: n}
}

// notes reads a session's notes, "key=value".
func (h *house) notes(s *core.Session) []string {
	h.Helper()
	var all []string
	h.must(s.Notes(nil, func(key, value []byte) { all = append(all, string(key)+"="+string(value)) }))
	return all
}

func (h *house) wantNotes(s *core.Session, want ...string) {
	h.Helper()
	if got := h.notes(s); !slices.Equal(got, want) {
		h.Fatalf("notes %q, want %q", got, want)
	}
}

// retainedAt is the last value of a topic, "" for none.
func (h *house) retainedAt(s *core.Session, topic string) string {
	h.Helper()
	m, err := s.Retained(h.topic(topic))
	h.must(err)
	if m == nil {
		return ""
	}
	return string(m.Payload)
}
