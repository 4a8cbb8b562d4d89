package local

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// The model of one queue: plain maps and loops, no thought for speed. Every
// delivery is checked as it comes; after every step the figures must agree.

// item is a message in the model.
type item struct {
	seq       uint64
	size      int64
	deadline  time.Time // zero: never
	instant   bool
	transient bool
	started   bool
	attempts  uint32
	until     time.Time // not to be tried again before
	by        *client   // who holds it, nil when it is ready
}

// client is a consumer in the model, and its receiver in the engine.
type client struct {
	model *model
	con   core.Consumer
	room  int
	mode  core.Verdict // what it answers while it has room
	full  bool
	noAck bool
	sizes int64 // takes sizes that leave no rest by it; 0: all
}

func (c *client) takes(size int64) bool { return c.sizes == 0 || size%c.sizes == 0 }

type model struct {
	t       *testing.T
	turn    sync.Mutex // held by Deliver; see passTurn
	spec    core.QueueSpec
	engine  *Engine
	drops   *core.Drops
	batch   core.Batch
	items   map[uint64]*item // all that is here, by seq
	last    uint64
	clients []*client
	puller  core.Consumer
	pulled  *client // what the puller holds is by this one
	dropped map[core.DropReason]uint64
	topic   routing.Topic
	choosy  bool // consumers may choose, and nothing expires
	buried  int  // dead letters, which go to a queue of theirs
}

// script is the fuzzer's bytes as decisions; 0 when they are used up.
type script struct{ left []byte }

func (s *script) next(n int) int {
	if len(s.left) == 0 {
		return 0
	}
	b := s.left[0]
	s.left = s.left[1:]
	return int(b) % n
}

// newModel is of a queue in memory, or of a named one with a window of three on
// a disk.
func newModel(t *testing.T, s *script, e *Engine) *model {
	t.Helper()
	m := &model{t: t, engine: e, drops: &core.Drops{}, items: map[uint64]*item{},
		dropped: map[core.DropReason]uint64{}, topic: topic(t, "a")}
	m.pulled = &client{model: m}
	m.spec = core.QueueSpec{Key: core.Key(core.QueueKind(s.next(2)), "q"), Drops: m.drops}
	if e.disk != nil {
		m.spec.Key.Kind, m.spec.Durable = core.NamedQueue, true
		e.window = windowSize{count: 3, bytes: 1 << 20}
		m.last = e.disk.boot << seqBits
	}
	a := &m.spec.Args
	if n := s.next(6); n > 0 {
		a.MaxLength, a.HasMaxLength = n, true
	}
	if n := s.next(4); n > 1 {
		a.MaxBytes, a.HasMaxBytes = int64(4*n), true
	}
	if s.next(4) == 1 {
		a.Overflow = core.RejectPublish
	}
	m.choosy = m.spec.Key.Kind == core.NamedQueue && s.next(2) == 1
	if n := s.next(6); n > 3 && !m.choosy {
		a.MessageTTL, a.HasMessageTTL = time.Duration(n-4)*2*time.Second, true
	}
	m.afterlife(s)
	for _, spec := range []core.QueueSpec{m.spec, {Key: core.Named("dead"), Durable: m.spec.Durable}} {
		if _, err := m.engine.DeclareQueue(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	bindTo(t, m.engine, core.TopicExchange, "a", m.spec.Key, nil)
	m.puller, _ = m.engine.Consume(t.Context(), m.spec.Key, core.ConsumeOptions{Pull: true}, nil)
	return m
}

// afterlife says what becomes of what is given back and given up.
func (m *model) afterlife(s *script) {
	a := &m.spec.Args
	if s.next(3) == 1 {
		a.DeadLetter = &core.DeadLetter{Key: "dead", HasKey: true}
	}
	if n := s.next(5); n > 2 {
		a.DeliveryLimit, a.HasLimit = n-2, true
	}
	if m.spec.Key.Kind == core.NamedQueue && s.next(3) == 1 {
		a.MaxPriority = 1 + s.next(4)
	}
	if s.next(4) == 1 {
		a.RedeliverWait = 700 * time.Millisecond
	}
}

// due is what may be handed over, oldest first.
func (m *model) due() []*item {
	return slices.DeleteFunc(m.ready(), func(i *item) bool { return i.late() })
}

func (i *item) late() bool { return i.until.After(time.Now()) }

// ready is what waits, oldest first.
func (m *model) ready() []*item {
	var list []*item
	for _, i := range m.items {
		if i.by == nil {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

func (m *model) drop(i *item, why core.DropReason) {
	delete(m.items, i.seq)
	if _, ok := deathOf(why); ok && m.spec.Args.DeadLetter != nil {
		m.buried++
		return
	}
	m.dropped[why]++
}

func (i *item) expired() bool {
	return !i.deadline.IsZero() && !i.started && !i.instant && !time.Now().Before(i.deadline)
}

// sweep drops what expired.
func (m *model) sweep() {
	for _, i := range m.ready() {
		if i.expired() {
			m.drop(i, core.DropExpired)
		}
	}
}

// Deliver checks that it is the oldest good message, and its form.
func (c *client) Deliver(d core.Delivery) core.Verdict {
	m := c.model
	m.turn.Lock()
	defer m.turn.Unlock()
	m.sweep()
	ready := slices.DeleteFunc(m.due(), func(i *item) bool { return !c.takes(i.size) })
	if c.full || len(ready) == 0 || ready[0].seq != d.Seq {
		m.t.Errorf("delivered %d, full %v, ready are %v", d.Seq, c.full, seqsOf(ready))
		return core.Full
	}
	i := ready[0]
	if d.Attempts != i.attempts || int64(len(d.Payload)) != i.size {
		m.t.Errorf("delivered %d with %d attempts and %d bytes, want %+v", d.Seq, d.Attempts, len(d.Payload), *i)
	}
	if c.room == 0 {
		c.full = true
		return core.Full
	}
	c.room--
	reason, isDrop := c.mode.Reason()
	switch {
	case isDrop:
		m.drop(i, reason)
	case c.mode == core.Settled || c.noAck:
		delete(m.items, i.seq)
	default:
		i.by = c
	}
	return c.mode
}

func seqsOf(list []*item) []uint64 {
	var s []uint64
	for _, i := range list {
		s = append(s, i.seq)
	}
	return s
}

// over tells whether the limits are passed with so much more.
func (m *model) over(n int, bytes int64) bool {
	a := m.spec.Args
	for _, i := range m.ready() {
		n++
		bytes += i.size
	}
	return a.HasMaxLength && n > a.MaxLength || a.HasMaxBytes && bytes > a.MaxBytes
}

func (m *model) forgets() bool { return m.spec.Key.Kind != core.NamedQueue }

// message makes one of a script's choice.
func (m *model) message(s *script) *core.Message {
	msg := core.NewMessage(s.next(4))
	msg.Exchange, msg.Topic = core.TopicExchange, m.topic
	msg.Guarantee = core.Guarantee(s.next(2))
	if m.engine.disk != nil {
		msg.Guarantee = core.Guarantee(s.next(3))
	}
	if n := s.next(5); n > 2 && !m.choosy {
		ttl := time.Duration(n-3) * time.Second
		msg.Props = &core.Properties{TTL: ttl, HasTTL: true, Expires: time.Now().Add(ttl)}
	}
	if m.spec.Args.MaxPriority > 0 {
		if msg.Props == nil {
			msg.Props = &core.Properties{}
		}
		msg.Props.Priority = uint8(s.next(6))
	}
	return msg
}

// accept is what the queue does with a published message before it hands over.
func (m *model) accept(msg *core.Message) {
	i := &item{size: int64(len(msg.Payload)), transient: msg.Guarantee == core.AtMostOnce}
	if i.transient && m.forgets() && len(m.clients) == 0 {
		m.dropped[core.DropOffline]++
		return
	}
	m.last++
	i.seq = m.last
	if most := m.spec.Args.MaxPriority; most > 0 {
		i.seq |= uint64(255-min(int(msg.Props.Priority), most)) << 56
	}
	if a := m.spec.Args; a.HasMessageTTL {
		i.deadline = time.Now().Add(a.MessageTTL)
		i.instant = a.MessageTTL == 0
	}
	if p := msg.Props; p != nil && p.HasTTL {
		if i.deadline.IsZero() || p.Expires.Before(i.deadline) {
			i.deadline = p.Expires
		}
		i.instant = i.instant || p.TTL == 0
	}
	m.items[i.seq] = i
}

func (m *model) publish(s *script) {
	msg := m.message(s)
	refused := m.spec.Args.Overflow == core.RejectPublish && m.over(1, int64(len(msg.Payload)))
	if !refused {
		m.accept(msg)
	}
	m.engine.Publish(&m.batch, msg, func(_ bool, err error) {
		if (err != nil) != refused {
			m.t.Fatalf("refused: %v, want %v", err, refused)
		}
	})
}

func (m *model) attach(s *script) {
	if len(m.clients) == 3 {
		return
	}
	modes := []core.Verdict{core.Held, core.Held, core.Settled, core.Dropped(core.DropTooLarge)}
	c := &client{model: m, room: s.next(4), mode: modes[s.next(len(modes))], noAck: s.next(4) == 1, full: s.next(4) == 1}
	m.clients = append(m.clients, c)
	o := core.ConsumeOptions{NoAck: c.noAck, Paused: c.full}
	if m.choosy && s.next(4) > 0 {
		c.sizes = int64(2 + s.next(3))
		o.Accepts = func(m *core.Message) bool { return c.takes(int64(len(m.Payload))) }
	}
	con, err := m.engine.Consume(m.t.Context(), m.spec.Key, o, c)
	if err != nil {
		m.t.Fatal(err)
	}
	c.con = con
}

// held is what a client holds, oldest first.
func (m *model) held(c *client) []*item {
	var list []*item
	for _, i := range m.items {
		if i.by == c {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// settle is the model's part of a settlement.
func (m *model) settle(i *item, o core.Outcome) {
	i.by, i.instant = nil, false
	switch o {
	case core.Ack:
		delete(m.items, i.seq)
	case core.Reject:
		m.drop(i, core.DropRejected)
	case core.Requeue:
		i.attempts++
		m.requeued(i)
	case core.Return:
		i.started = i.started || m.spec.Key.Kind == core.SessionQueue
	}
}

// requeued: one that comes back too often goes, others may have to wait.
func (m *model) requeued(i *item) {
	a, limit := m.spec.Args, -1
	switch {
	case m.spec.Key.Kind == core.SessionQueue:
		return
	case a.HasLimit:
		limit = a.DeliveryLimit
	case a.DeadLetter != nil:
		limit = 20
	}
	if limit >= 0 && int(i.attempts) > limit {
		m.drop(i, core.DropDeliveryLimit)
		return
	}
	wait := a.RedeliverWait << min(i.attempts-1, 6)
	if wait == 0 && limit < 0 && i.attempts > 10 {
		wait = 100 * time.Millisecond << (i.attempts - 11)
	}
	if i.until = time.Now().Add(wait); !i.deadline.IsZero() && i.deadline.Before(i.until) {
		i.until = i.deadline
	}
}

// forget is what happens when the last consumer is gone.
func (m *model) forget() {
	if !m.forgets() || len(m.clients) > 0 {
		return
	}
	for _, i := range m.ready() {
		if i.transient {
			m.drop(i, core.DropOffline)
		}
	}
}

func (m *model) cancel(s *script) {
	c := m.client(s)
	if c == nil {
		return
	}
	o := []core.Outcome{core.Requeue, core.Return}[s.next(2)]
	m.clients = slices.DeleteFunc(m.clients, func(x *client) bool { return x == c })
	for _, i := range m.held(c) {
		m.settle(i, o)
	}
	m.forget()
	c.full = true
	c.con.Cancel(o)
}

func (m *model) client(s *script) *client {
	if len(m.clients) == 0 {
		return nil
	}
	return m.clients[s.next(len(m.clients))]
}

func (m *model) resume(s *script) {
	if c := m.client(s); c != nil {
		c.room += s.next(4)
		c.full = false
		c.con.Resume(nil)
	}
}

// settleSome settles a few of a client's, and sometimes what it does not hold.
func (m *model) settleSome(s *script) {
	c, con := m.client(s), core.Consumer(nil)
	if s.next(4) == 0 || c == nil {
		c, con = m.pulled, m.puller
	} else {
		con = c.con
	}
	o := core.Outcome(s.next(4))
	var seqs []uint64
	for _, i := range m.held(c) {
		if s.next(2) == 0 {
			seqs = append(seqs, i.seq)
			m.settle(i, o)
		}
	}
	wrong := s.next(5) == 1
	if wrong {
		seqs = append(seqs, m.last+7)
	}
	if o == core.Requeue || o == core.Return {
		m.forget()
	}
	c.full = false
	if err := con.Settle(&m.batch, o, seqs...); (err != nil) != wrong {
		m.t.Fatalf("settle %v: %v, want an error: %v", seqs, err, wrong)
	}
}

func (m *model) purge() {
	ready := m.ready()
	n, err := m.engine.PurgeQueue(m.t.Context(), m.spec.Key, 0)
	if err != nil || n != len(ready) {
		m.t.Fatalf("purged %d, %v, want %d", n, err, len(ready))
	}
	for _, i := range ready {
		delete(m.items, i.seq)
	}
}

func (m *model) get() {
	m.sweep()
	ready := m.due()
	d, ok := m.puller.Get()
	if ok != (len(ready) > 0) || ok && d.Seq != ready[0].seq {
		m.t.Fatalf("got %v %d, ready are %v", ok, d.Seq, seqsOf(ready))
	}
	if ok {
		ready[0].by = m.pulled
	}
}

// apply publishes two and settles one, or fails and changes nothing.
func (m *model) apply(s *script) {
	a, b := m.message(s), m.message(s)
	if m.spec.Args.MaxPriority > 0 {
		b.Props.Priority = a.Props.Priority // else the first may be gone before the second passes it
	}
	ops := []core.Op{{Message: a}, {Message: b}}
	held := m.held(m.pulled)
	var settled *item
	if len(held) > 0 {
		settled = held[0]
		ops = append(ops, core.Op{Consumer: m.puller, Seq: settled.seq, Outcome: core.Outcome(s.next(4))})
	}
	fails := s.next(3) == 1
	if fails {
		ops = append(ops, core.Op{Consumer: m.puller, Seq: m.last + 7})
	}
	if m.spec.Args.Overflow == core.RejectPublish {
		fails = fails || m.over(1, int64(len(a.Payload))) || m.over(2, int64(len(a.Payload)+len(b.Payload)))
	}
	if !fails {
		ops = m.applied(ops, settled)
	}
	m.engine.Apply(&m.batch, ops, func(_ bool, err error) {
		if (err != nil) != fails {
			m.t.Errorf("apply: %v, want an error: %v", err, fails)
		}
	})
}

// applied does the steps in the model. What would come back in the middle of
// an Apply makes one of its own, so that the model is ahead of the engine.
func (m *model) applied(ops []core.Op, settled *item) []core.Op {
	last := ops[len(ops)-1]
	if settled != nil {
		m.settle(settled, last.Outcome)
	}
	if settled != nil && last.Outcome != core.Ack && last.Outcome != core.Reject {
		m.forget()
		return ops[2:]
	}
	m.accept(ops[0].Message)
	m.accept(ops[1].Message)
	return ops
}

// settleDown is what the queue does when nobody hands over any more.
func (m *model) settleDown() {
	m.sweep()
	for _, i := range m.ready() {
		if i.instant {
			m.drop(i, core.DropExpired)
		}
	}
	for m.spec.Args.Overflow == core.DropHead && m.over(0, 0) {
		list := append(m.lowestFirst(), m.late()...)
		if at := slices.IndexFunc(list, m.droppable); at >= 0 {
			m.drop(list[at], core.DropOverflow)
		} else {
			break
		}
	}
	m.sweep()
}

// lowestFirst is what is due, the lowest priority first.
func (m *model) lowestFirst() []*item {
	list := m.due()
	slices.SortStableFunc(list, func(a, b *item) int { return cmp.Compare(b.seq>>56, a.seq>>56) })
	return list
}

// late is what waits to be tried again, the first due first.
func (m *model) late() []*item {
	list := slices.DeleteFunc(m.ready(), func(i *item) bool { return !i.late() })
	slices.SortStableFunc(list, func(a, b *item) int { return a.until.Compare(b.until) })
	return list
}

// droppable: a session's client may know what came back from it.
func (m *model) droppable(i *item) bool {
	return m.spec.Key.Kind != core.SessionQueue || !i.started && i.attempts == 0
}

// passTurn: what was done before is seen by a Deliver that a timer causes, and
// the other way round.
func (m *model) passTurn() {
	m.turn.Lock()
	defer m.turn.Unlock()
}

// check compares the figures.
func (m *model) check(step string) {
	m.t.Helper()
	m.batch.Flush()
	synctest.Wait()
	m.passTurn()
	if m.t.Failed() {
		m.t.Fatalf("after %s", step)
	}
	m.settleDown()
	want := core.QueueInfo{Key: m.spec.Key, Consumers: len(m.clients)}
	for _, i := range m.items {
		want.Bytes += i.size
		if i.by == nil {
			want.Messages++
		} else {
			want.Unsettled++
		}
	}
	got, err := m.engine.DeclareQueue(m.t.Context(), core.QueueSpec{Key: m.spec.Key, Passive: true})
	if err != nil || got != want {
		m.t.Fatalf("after %s: %+v, %v, want %+v; ready %v", step, got, err, want, seqsOf(m.ready()))
	}
	dead, err := m.engine.DeclareQueue(m.t.Context(), core.QueueSpec{Key: core.Named("dead"), Passive: true})
	if err != nil || dead.Messages != m.buried {
		m.t.Fatalf("after %s: %d dead letters, %v, want %d", step, dead.Messages, err, m.buried)
	}
	drops := map[core.DropReason]uint64{}
	m.drops.Each(func(r core.DropReason, n uint64) {
		if n > 0 {
			drops[r] = n
		}
	})
	if !maps.Equal(drops, m.dropped) {
		m.t.Fatalf("after %s: dropped %v, want %v", step, drops, m.dropped)
	}
	for _, c := range m.clients {
		if !c.full && slices.ContainsFunc(m.due(), func(i *item) bool { return c.takes(i.size) }) {
			m.t.Fatalf("after %s: %d are ready and somebody has room", step, want.Messages)
		}
	}
}
