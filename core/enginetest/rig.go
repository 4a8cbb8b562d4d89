package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// rig is an engine under test with short ways to use it.
type rig struct {
	*testing.T
	engine core.Engine
	ctx    context.Context
	drops  *core.Drops // of every queue that the rig declares
	batch  *core.Batch
	first  core.EngineStats

	queues    []core.QueueKey
	exchanges []string
}

func newRig(t *testing.T, e core.Engine) *rig {
	return &rig{T: t, engine: e, ctx: t.Context(), drops: &core.Drops{}, batch: &core.Batch{}, first: e.Stats()}
}

// finish deletes what the case declared and wants nothing left.
func (r *rig) finish() {
	r.Helper()
	if r.Failed() || r.Skipped() {
		return
	}
	for _, k := range r.queues {
		if _, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{}); err != nil {
			r.wantError(err, core.ErrNotFound)
		}
	}
	for _, x := range r.exchanges {
		if err := r.engine.DeleteExchange(r.ctx, x, false); err != nil {
			r.wantError(err, core.ErrNotFound)
		}
	}
	synctest.Wait()
	want := r.first
	want.Unroutable, want.DeadLettered = r.engine.Stats().Unroutable, r.engine.Stats().DeadLettered
	if got := r.engine.Stats(); got != want {
		r.Errorf("left behind: %+v, want %+v", got, want)
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) wantError(err, kind error) {
	r.Helper()
	if !errors.Is(err, kind) {
		r.Fatalf("error %v, want one of the kind %q", err, kind)
	}
}

// queue declares a named queue.
func (r *rig) queue(name string, edits ...func(*core.QueueSpec)) core.QueueKey {
	r.Helper()
	s := core.QueueSpec{Key: core.Named(name), Drops: r.drops}
	for _, edit := range edits {
		edit(&s)
	}
	_, err := r.engine.DeclareQueue(r.ctx, s)
	if errors.Is(err, core.ErrUnsupported) {
		r.Skipf("not supported: %v", err)
	}
	r.must(err)
	r.queues = append(r.queues, s.Key)
	return s.Key
}

// kind makes the queue one of a subscription.
func kind(k core.QueueKind) func(*core.QueueSpec) {
	return func(s *core.QueueSpec) { s.Key.Kind = k }
}

func args(a core.QueueArgs) func(*core.QueueSpec) {
	return func(s *core.QueueSpec) { s.Args = a }
}

func autoDelete(s *core.QueueSpec) { s.AutoDelete = true }

func exclusive(by core.SessionID) func(*core.QueueSpec) {
	return func(s *core.QueueSpec) { s.Exclusive, s.By = true, by }
}

func (r *rig) info(k core.QueueKey) core.QueueInfo {
	r.Helper()
	i, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k, Passive: true})
	r.must(err)
	return i
}

// wantInfo compares ready, unsettled and bytes.
func (r *rig) wantInfo(k core.QueueKey, ready, unsettled int, bytes int64) {
	r.Helper()
	synctest.Wait()
	i := r.info(k)
	if i.Messages != ready || i.Unsettled != unsettled || i.Bytes != bytes {
		r.Fatalf("%v has %d ready, %d unsettled, %d bytes; want %d, %d, %d",
			k, i.Messages, i.Unsettled, i.Bytes, ready, unsettled, bytes)
	}
}

func (r *rig) wantGone(k core.QueueKey) {
	r.Helper()
	synctest.Wait()
	_, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k, Passive: true})
	r.wantError(err, core.ErrNotFound)
}

// exchange declares one.
func (r *rig) exchange(name string, k routing.Kind, edits ...func(*core.ExchangeSpec)) {
	r.Helper()
	s := core.ExchangeSpec{Name: name, Kind: k}
	for _, edit := range edits {
		edit(&s)
	}
	r.must(r.engine.DeclareExchange(r.ctx, s))
	r.exchanges = append(r.exchanges, name)
}

// binding is a spec with a filter in canonical text, "" for none.
func (r *rig) binding(source, filter string, k core.QueueKey, edits ...func(*core.BindSpec)) core.BindSpec {
	r.Helper()
	s := core.BindSpec{Source: source, Queue: k}
	if filter != "" {
		f, err := routing.ParseFilter(filter)
		r.must(err)
		s.Filter = f
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func (r *rig) bind(source, filter string, k core.QueueKey, edits ...func(*core.BindSpec)) {
	r.Helper()
	_, err := r.engine.Bind(r.ctx, r.binding(source, filter, k, edits...))
	r.must(err)
}

func (r *rig) unbind(source, filter string, k core.QueueKey, edits ...func(*core.BindSpec)) {
	r.Helper()
	r.must(r.engine.Unbind(r.ctx, r.binding(source, filter, k, edits...)))
}

// toExchange makes the target an exchange.
func toExchange(name string) func(*core.BindSpec) {
	return func(s *core.BindSpec) { s.Queue, s.Exchange = core.QueueKey{}, name }
}

func value(v any) func(*core.BindSpec) { return func(s *core.BindSpec) { s.Value = v } }

func bindArgs(hs routing.Headers) func(*core.BindSpec) {
	return func(s *core.BindSpec) { s.Args = hs }
}

// message is at least once unless edited.
func (r *rig) message(exchange, topic, payload string, edits ...func(*core.Message)) *core.Message {
	r.Helper()
	m := core.NewMessage(len(payload))
	copy(m.Payload, payload)
	m.Exchange, m.Guarantee = exchange, core.AtLeastOnce
	t, err := routing.ParseTopic(topic)
	r.must(err)
	m.Topic = t
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func atMostOnce(m *core.Message) { m.Guarantee = core.AtMostOnce }

// ttl stamps as Session.Publish does.
func ttl(d time.Duration) func(*core.Message) {
	return func(m *core.Message) {
		m.Props = &core.Properties{TTL: d, HasTTL: true, Expires: time.Now().Add(d)}
	}
}

func headers(hs ...routing.Header) func(*core.Message) {
	return func(m *core.Message) { m.Props = &core.Properties{Headers: hs} }
}

// result is what Done said.
type result struct {
	times  int
	routed bool
	err    error
}

func (r *rig) done(into *result) core.Done {
	return func(routed bool, err error) {
		into.times++
		into.routed, into.err = routed, err
	}
}

// publish waits for Done and wants exactly one.
func (r *rig) publish(m *core.Message) (routed bool, err error) {
	r.Helper()
	var res result
	r.engine.Publish(r.batch, m, r.done(&res))
	r.batch.Flush()
	synctest.Wait()
	if res.times != 1 {
		r.Fatalf("Done was called %d times", res.times)
	}
	return res.routed, res.err
}

// send publishes one for each payload and wants each routed.
func (r *rig) send(exchange, topic string, payloads ...string) {
	r.Helper()
	for _, p := range payloads {
		r.sendOne(r.message(exchange, topic, p))
	}
}

func (r *rig) sendOne(m *core.Message) {
	r.Helper()
	if routed, err := r.publish(m); err != nil || !routed {
		r.Fatalf("publish of %q to %q %q: routed %v, error %v", m.Payload, m.Exchange, m.Topic, routed, err)
	}
}

// sendNowhere wants no queue to take it.
func (r *rig) sendNowhere(m *core.Message) {
	r.Helper()
	if routed, err := r.publish(m); err != nil || routed {
		r.Fatalf("publish of %q to %q %q: routed %v, error %v; want no queue", m.Payload, m.Exchange, m.Topic, routed, err)
	}
}

// apply waits for Done.
func (r *rig) apply(ops ...core.Op) (routed bool, err error) {
	r.Helper()
	var res result
	r.engine.Apply(r.batch, ops, r.done(&res))
	r.batch.Flush()
	synctest.Wait()
	if res.times != 1 {
		r.Fatalf("Done was called %d times", res.times)
	}
	return res.routed, res.err
}

// wantDropped compares how many were dropped for a reason.
func (r *rig) wantDropped(reason core.DropReason, want uint64) {
	r.Helper()
	synctest.Wait()
	r.drops.Each(func(at core.DropReason, n uint64) {
		if at == reason && n != want {
			r.Fatalf("%d dropped as %v, want %d", n, reason, want)
		}
	})
}
