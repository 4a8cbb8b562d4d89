package core_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/routing"
)

// house is a broker on the engine in memory, inside a synctest bubble.
type house struct {
	*testing.T
	ctx    context.Context
	engine core.Engine
	broker *core.Broker
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newHouse(t *testing.T) *house { return houseOn(t, local.New(quiet()), core.DefaultConfig(), nil) }

func houseOn(t *testing.T, e core.Engine, cfg core.Config, p auth.Policy) *house {
	t.Helper()
	return &house{t, context.Background(), e, core.NewBroker(cfg, "realm", e, p, quiet())}
}

// bubble runs a test in a house of its own.
func bubble(t *testing.T, f func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newHouse(t)) })
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) wantError(err, kind error) {
	h.Helper()
	if !errors.Is(err, kind) {
		h.Fatalf("error %v, want one of the kind %q", err, kind)
	}
}

// hello is a client that resumes for a minute.
func hello(id string, edits ...func(*core.Hello)) core.Hello {
	c := core.Hello{Protocol: "mqtt", ClientID: id, Resumable: true, Expiry: time.Minute}
	for _, edit := range edits {
		edit(&c)
	}
	return c
}

func clean(c *core.Hello) { c.Clean = true }

func expiry(d time.Duration) func(*core.Hello) { return func(c *core.Hello) { c.Expiry = d } }

func plain(c *core.Hello) { c.Resumable, c.Protocol = false, "stomp" }

func (h *house) connect(id string, edits ...func(*core.Hello)) (*core.Session, bool) {
	h.Helper()
	s, resumed, err := h.broker.Connect(h.ctx, hello(id, edits...))
	h.must(err)
	return s, resumed
}

// fresh connects and wants a new session.
func (h *house) fresh(id string, edits ...func(*core.Hello)) *core.Session {
	h.Helper()
	s, resumed := h.connect(id, edits...)
	if resumed {
		h.Fatalf("%s resumed, want a new session", id)
	}
	return s
}

// again connects and wants the old session.
func (h *house) again(id string, edits ...func(*core.Hello)) *core.Session {
	h.Helper()
	s, resumed := h.connect(id, edits...)
	if !resumed {
		h.Fatalf("%s did not resume", id)
	}
	return s
}

// inbox is a receiver that writes down payloads.
type inbox struct {
	h       *house
	verdict core.Verdict

	mu   sync.Mutex
	got  []core.Delivery
	gone int
}

func (h *house) inbox() *inbox { return &inbox{h: h, verdict: core.Settled} }

func (h *house) holding() *inbox { return &inbox{h: h, verdict: core.Held} }

func (i *inbox) Deliver(d core.Delivery) core.Verdict {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = append(i.got, d)
	return i.verdict
}

func (i *inbox) QueueGone() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gone++
}

func (i *inbox) take() []core.Delivery {
	synctest.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	got := i.got
	i.got = nil
	return got
}

// want compares the payloads that came since the last take.
func (i *inbox) want(payloads ...string) []core.Delivery {
	i.h.Helper()
	got := i.take()
	if texts := texts(got); !slices.Equal(texts, payloads) {
		i.h.Fatalf("received %q, want %q", texts, payloads)
	}
	return got
}

func texts(ds []core.Delivery) []string {
	var list []string
	for _, d := range ds {
		list = append(list, string(d.Payload))
	}
	return list
}

func (h *house) topic(text string) routing.Topic {
	h.Helper()
	t, err := routing.ParseTopic(text)
	h.must(err)
	return t
}

func (h *house) filter(text string) routing.Filter {
	h.Helper()
	f, err := routing.ParseFilter(text)
	h.must(err)
	return f
}

// note is a message for amq.topic.
func (h *house) note(topic, payload string, edits ...func(*core.Message)) *core.Message {
	h.Helper()
	m := core.NewMessage(len(payload))
	copy(m.Payload, payload)
	m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, h.topic(topic), core.AtLeastOnce
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func retain(m *core.Message) { m.Retain = true }

func ttl(d time.Duration) func(*core.Message) {
	return func(m *core.Message) { m.Props = &core.Properties{TTL: d, HasTTL: true} }
}

// say publishes and returns what Done said.
func (h *house) say(s *core.Session, m *core.Message) (routed bool, err error) {
	h.Helper()
	calls := 0
	s.Publish(nil, m, func(r bool, e error) {
		calls++
		routed, err = r, e
	})
	synctest.Wait()
	if calls != 1 {
		h.Fatalf("Done was called %d times", calls)
	}
	return routed, err
}

// tell publishes and wants no error.
func (h *house) tell(s *core.Session, topic, payload string, edits ...func(*core.Message)) {
	h.Helper()
	_, err := h.say(s, h.note(topic, payload, edits...))
	h.must(err)
}

func sessionQueue(id string) core.QueueKey { return core.Key(core.SessionQueue, id) }

// subscribe gives a session its queue with one binding and a consumer.
func (h *house) subscribe(s *core.Session, id, filter string, r core.Receiver, edits ...func(*core.BindSpec)) core.Consumer {
	h.Helper()
	h.queue(s, id)
	h.bind(s, id, filter, edits...)
	return h.consume(s, id, r)
}

func (h *house) queue(s *core.Session, id string) {
	h.Helper()
	_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: sessionQueue(id), Exclusive: true})
	h.must(err)
}

func (h *house) bind(s *core.Session, id, filter string, edits ...func(*core.BindSpec)) {
	h.Helper()
	b := core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue(id), Filter: h.filter(filter)}
	for _, edit := range edits {
		edit(&b)
	}
	h.must(s.Bind(h.ctx, b))
}

func (h *house) consume(s *core.Session, id string, r core.Receiver) core.Consumer {
	h.Helper()
	c, err := s.Consume(h.ctx, sessionQueue(id), core.ConsumeOptions{}, r)
	h.must(err)
	return c
}

// listen is a session of its own that hears a filter.
func (h *house) listen(filter string) *inbox {
	h.Helper()
	i := h.inbox()
	id := "listener to " + filter
	h.subscribe(h.fresh(id, plain), id, filter, i)
	return i
}

// wantNothing: no session, queue, binding, consumer, byte is left.
func (h *house) wantNothing() {
	h.Helper()
	synctest.Wait()
	st := h.broker.Stats()
	e := st.Engine
	if st.Sessions+e.Queues+e.Bindings+e.Consumers+e.Ready+e.Unsettled != 0 || e.Bytes != 0 {
		h.Fatalf("left behind: %+v", st)
	}
	for name, p := range st.Protocols {
		if p.Connections != 0 {
			h.Fatalf("%d connections of %s", p.Connections, name)
		}
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *house) dropped(protocol string, r core.DropReason) uint64 {
	synctest.Wait()
	return h.broker.Stats().Protocols[protocol].Dropped[r.String()]
}
