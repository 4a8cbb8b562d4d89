package core_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"entrepot/core"
	"entrepot/core/store"
)

// A model of what clients know of sessions, notes, wills and last values, over
// power cuts at any point that keep any part of what was not synced.

// cell is a value on disk: what it is for sure, and what it may be since.
type cell struct {
	sure  string
	later []string
}

// attempt notes a write; the returned function says that it is on the disk.
func (c *cell) attempt(v string) (confirm func()) {
	c.later = append(c.later, v)
	return func() {
		if i := slices.Index(c.later, v); i >= 0 {
			c.sure, c.later = v, slices.Delete(c.later, 0, i+1)
		}
	}
}

func (c *cell) is(v string) { c.sure, c.later = v, nil }

func (c *cell) allows(v string) bool { return v == c.sure || slices.Contains(c.later, v) }

// crashClient is one client and what it knows.
type crashClient struct {
	name    string
	session *core.Session // nil: not connected
	number  cell          // of its session, "" for none
	will    cell          // at its topic
	carries string        // the will of the connection
	// Messages in its queue, each with a note of its own: true is confirmed.
	has, gone map[string]bool // gone: acknowledged, with its note
	held      map[string]uint64
	consumer  core.Consumer
}

// receive holds what a client gets.
func (w *crashWorld) receive(c *crashClient) core.Receiver {
	return receiverFunc(func(d core.Delivery) core.Verdict {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.held[string(d.Payload)] = d.Seq
		return core.Held
	})
}

type receiverFunc func(core.Delivery) core.Verdict

func (f receiverFunc) Deliver(d core.Delivery) core.Verdict { return f(d) }

type crashWorld struct {
	*bunker
	rng     *rand.Rand
	noSync  bool
	next    int
	clients []*crashClient
	values  map[string]*cell // last values by topic
	own     *core.Session

	mu sync.Mutex // the model's, as Done comes from anywhere
}

func (w *crashWorld) open(d *store.Disk) {
	w.bunker = openBunker(w.T, d, store.Options{NoSync: w.noSync})
	var err error
	w.own, _, err = w.broker.Connect(w.ctx, core.Hello{Protocol: "test"})
	w.must(err)
}

func (w *crashWorld) number() string {
	w.next++
	return strconv.Itoa(w.next)
}

// done is a Done that calls f, under mu, when all went well.
func (w *crashWorld) done(f func()) core.Done {
	return func(_ bool, err error) {
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			f()
		}
	}
}

func (w *crashWorld) connect(c *crashClient, clean bool) {
	h := core.Hello{Protocol: "mqtt", ClientID: c.name, Resumable: true, Expiry: core.Forever, Clean: clean}
	carries := ""
	if w.rng.IntN(2) == 0 {
		carries = w.number()
		h.Will = &core.Will{Message: w.note("will/"+c.name, carries, retain, durable)}
	}
	s, resumed, err := w.broker.Connect(w.ctx, h)
	w.must(err)
	if resumed {
		w.resumed(c, s)
	} else {
		w.mu.Lock()
		c.number.is(fmt.Sprint(s.ID()))
		c.has, c.gone = map[string]bool{}, map[string]bool{}
		w.mu.Unlock()
		w.lasting(s, c.name, "to/"+c.name)
	}
	c.session, c.carries, c.held = s, carries, map[string]uint64{}
	c.consumer, err = s.Consume(w.ctx, sessionQueue(c.name), core.ConsumeOptions{}, w.receive(c))
	w.must(err)
}

// resumed wants the session to be one that can be there.
func (w *crashWorld) resumed(c *crashClient, s *core.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id := fmt.Sprint(s.ID()); !c.number.allows(id) {
		w.Fatalf("%s: session %s, want %+v", c.name, id, c.number)
	}
}

// leave ends a connection, and perhaps the session.
func (w *crashWorld) leave(c *crashClient) {
	reason := core.CloseLost
	w.mu.Lock()
	switch end := w.rng.IntN(4); {
	case end == 0:
		c.session.SetExpiry(0)
		c.number.attempt("")
		c.has, c.gone = nil, nil
		fallthrough
	case end == 1:
		reason = core.CloseNormal
		if c.carries != "" { // its removal is not synced
			c.will.attempt(c.carries)
		}
	case c.carries != "":
		c.will.is(c.carries)
	}
	w.mu.Unlock()
	c.session.Close(reason)
	c.session, c.carries = nil, ""
}

// send publishes to a client's queue with a note, as one.
func (w *crashWorld) send(c *crashClient) {
	id := w.number()
	w.mu.Lock()
	has := c.has
	has[id] = false
	w.mu.Unlock()
	c.session.PublishNoted(nil, w.note("to/"+c.name, id, durable), []core.Note{{Key: []byte(id), Value: []byte("x")}},
		w.done(func() { has[id] = true }))
}

// settle acknowledges a message and removes its note, as one.
func (w *crashWorld) settle(c *crashClient) {
	w.mu.Lock()
	gone := c.gone
	var ops []core.Op
	for _, id := range slices.Sorted(maps.Keys(c.held)) {
		if w.rng.IntN(3) > 0 {
			continue
		}
		ops = append(ops, core.Op{Consumer: c.consumer, Seq: c.held[id]}, noteOp(id, ""))
		delete(c.held, id)
		gone[id] = false
	}
	w.mu.Unlock()
	c.session.Apply(nil, ops, w.done(func() {
		for _, op := range ops {
			if op.Note != nil {
				gone[string(op.Note.Key)] = true
			}
		}
	}))
}

// keep stores a last value, or clears it.
func (w *crashWorld) keep() {
	topic := "value/" + strconv.Itoa(w.rng.IntN(4))
	v := ""
	if w.rng.IntN(4) > 0 {
		v = w.number()
	}
	w.mu.Lock()
	if w.values[topic] == nil {
		w.values[topic] = &cell{}
	}
	confirm := w.values[topic].attempt(v)
	w.mu.Unlock()
	w.own.Publish(nil, w.note(topic, v, retain, durable), w.done(confirm))
}

func (w *crashWorld) act() {
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch what := w.rng.IntN(10); {
	case what == 0:
		w.must(w.store.Sync())
	case what < 4:
		w.keep()
	case c.session == nil:
		w.connect(c, w.rng.IntN(8) == 0)
	case what == 4:
		w.leave(c)
	case what == 5:
		w.settle(c)
	default:
		w.send(c)
	}
}

// check compares what is there with what was told; "" is well.
func (w *crashWorld) check() string {
	for _, topic := range slices.Sorted(maps.Keys(w.values)) {
		c := w.values[topic]
		got := w.retainedAt(w.own, topic)
		if !c.allows(got) {
			return fmt.Sprintf("%s is %q, want %+v", topic, got, *c)
		}
		c.is(got)
	}
	for _, c := range w.clients {
		if c.carries != "" { // it was connected: the power cut is its loss
			c.will.is(c.carries)
		}
		got := w.retainedAt(w.own, "will/"+c.name)
		if !c.will.allows(got) {
			return fmt.Sprintf("%s: will %q, want %+v", c.name, got, c.will)
		}
		c.will.is(got)
		c.session, c.carries = nil, ""
		if fault := w.checkSession(c); fault != "" {
			return c.name + ": " + fault
		}
	}
	return ""
}

// checkSession resumes a client's session and looks into it.
func (w *crashWorld) checkSession(c *crashClient) string {
	s, resumed, err := w.broker.Connect(w.ctx, core.Hello{Protocol: "mqtt", ClientID: c.name, Resumable: true, Expiry: core.Forever})
	w.must(err)
	id := ""
	if resumed {
		id = fmt.Sprint(s.ID())
	}
	if !c.number.allows(id) {
		return fmt.Sprintf("session %q, want %+v", id, c.number)
	}
	defer s.Close(core.CloseNormal)
	if !resumed {
		w.lasting(s, c.name, "to/"+c.name)
		c.number.is(fmt.Sprint(s.ID()))
		c.has, c.gone = map[string]bool{}, map[string]bool{}
		return ""
	}
	c.number.is(id)
	var notes, waiting []string
	w.must(s.Notes(nil, func(key, _ []byte) { notes = append(notes, string(key)) }))
	pull, err := s.Consume(w.ctx, sessionQueue(c.name), core.ConsumeOptions{Pull: true}, nil)
	if err != nil {
		return fmt.Sprintf("its queue: %v", err)
	}
	for d, ok := pull.Get(); ok; d, ok = pull.Get() {
		waiting = append(waiting, string(d.Payload))
	}
	pull.Cancel(core.Return)
	return c.checkMessages(notes, waiting)
}

func (c *crashClient) checkMessages(notes, waiting []string) string {
	if c.has == nil { // its end was not synced, and is undone in part
		c.has, c.gone = map[string]bool{}, map[string]bool{}
		for _, id := range notes {
			c.has[id] = true
		}
		return ""
	}
	sorted := slices.Clone(waiting)
	slices.Sort(sorted)
	slices.Sort(notes)
	if !slices.Equal(notes, sorted) {
		return fmt.Sprintf("notes of %v, messages %v", notes, sorted)
	}
	for id, confirmed := range c.has {
		there := slices.Contains(notes, id)
		acked, touched := c.gone[id]
		if confirmed && !touched && !there {
			return fmt.Sprintf("%s was confirmed, and is lost", id)
		}
		if acked && there {
			return fmt.Sprintf("%s was acknowledged for good, and is back", id)
		}
	}
	c.has, c.gone = map[string]bool{}, map[string]bool{}
	for _, id := range notes {
		c.has[id] = true
	}
	return ""
}

// crashRound runs lives on one disk; it returns what is wrong, "" for nothing.
func crashRound(t *testing.T, seed uint64, noSync bool) (fault string) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &crashWorld{rng: rng, noSync: noSync, values: map[string]*cell{}, bunker: &bunker{house: house{T: t}}}
	for i := range 3 {
		w.clients = append(w.clients, &crashClient{name: fmt.Sprint("c", i)})
	}
	d := store.MemoryDisk()
	for life := range 4 {
		w.open(d)
		if fault = w.check(); fault != "" {
			w.close()
			return fmt.Sprintf("life %d: %s", life, fault)
		}
		for range 15 + rng.IntN(40) {
			w.act()
		}
		w.mu.Lock()
		d = w.disk.Crash(rng.IntN(101), seed+uint64(life))
		w.freeze()
		w.mu.Unlock()
		w.close()
	}
	return ""
}

// freeze lets nothing that is told after the power cut count: the model goes on
// with copies. With mu held.
func (w *crashWorld) freeze() {
	for topic, c := range w.values {
		w.values[topic] = &cell{c.sure, slices.Clone(c.later)}
	}
	for _, c := range w.clients {
		c.has, c.gone = maps.Clone(c.has), maps.Clone(c.gone)
	}
}

func soakRounds(normal, soak int) int {
	if os.Getenv("ENTREPOT_SOAK") == "1" {
		return soak
	}
	return normal
}

// TestCrashAnywhereKeepsState shows faults 68 and 69.
func TestCrashAnywhereKeepsState(t *testing.T) {
	const lanes = 4
	rounds := uint64(soakRounds(200, 3000))
	for lane := range uint64(lanes) {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for seed := lane; seed < rounds; seed += lanes {
				if fault := crashRound(t, seed, false); fault != "" {
					t.Fatalf("seed %d: %s", seed, fault)
				}
			}
		})
	}
}

func TestCrashWithoutSyncLosesState(t *testing.T) {
	for seed := range uint64(200) {
		if crashRound(t, seed, true) != "" {
			return
		}
	}
	t.Fatal("the model does not notice that nothing is synced")
}
