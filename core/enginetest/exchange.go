package enginetest

import (
	"errors"

	"entrepot/core"
	"entrepot/routing"
)

func exchangeTests() []test {
	return []test{
		{"the standard exchanges are there", standardExchanges},
		{"declare again, otherwise, passively", declareExchange},
		{"an internal exchange takes no publish", internalExchange},
		{"delete: bindings on both sides go, in use is refused", deleteExchange},
		{"an auto-delete exchange goes with its last binding", autoDeleteExchange},
		{"an auto-delete exchange goes with its last queue", autoDeleteByQueue},
		{"auto-delete exchanges in a row go one after the other", autoDeleteChain},
		{"bindings that make no sense are refused", badBindings},
	}
}

func standardExchanges(r *rig) {
	for name, k := range map[string]routing.Kind{
		core.TopicExchange: routing.TopicKind, "amq.direct": routing.Direct, "amq.fanout": routing.Fanout,
		"amq.headers": routing.HeadersKind, "amq.match": routing.HeadersKind,
	} {
		r.must(r.engine.DeclareExchange(r.ctx, core.ExchangeSpec{Name: name, Passive: true}))
		r.must(r.engine.DeclareExchange(r.ctx, core.ExchangeSpec{Name: name, Kind: k, Durable: true}))
	}
}

func declareExchange(r *rig) {
	passive := core.ExchangeSpec{Name: "x", Passive: true}
	r.wantError(r.engine.DeclareExchange(r.ctx, passive), core.ErrNotFound)
	r.exchange("x", routing.Direct)
	r.must(r.engine.DeclareExchange(r.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Direct}))
	r.must(r.engine.DeclareExchange(r.ctx, passive))
	for _, other := range []core.ExchangeSpec{
		{Kind: routing.Fanout}, {Kind: routing.Direct, Durable: true}, {Kind: routing.Direct, AutoDelete: true},
		{Kind: routing.Direct, Internal: true}, {Kind: routing.Direct, Alternate: "amq.direct"},
	} {
		other.Name = "x"
		err := r.engine.DeclareExchange(r.ctx, other)
		r.wantError(err, core.ErrConflict)
		if _, ok := errors.AsType[*core.Difference](err); !ok {
			r.Fatalf("%v does not say in what", err)
		}
	}
	r.wantError(r.engine.DeclareExchange(r.ctx, core.ExchangeSpec{Name: "y", Kind: 77}), core.ErrInvalid)
}

func internalExchange(r *rig) {
	r.exchange("inner", routing.Fanout, func(s *core.ExchangeSpec) { s.Internal = true })
	k := r.queue("q")
	r.bind("inner", "", k)
	_, err := r.publish(r.message("inner", "a", "1"))
	r.wantError(err, core.ErrNotAllowed)
	r.bind("amq.fanout", "", core.QueueKey{}, toExchange("inner"))
	r.send("amq.fanout", "a", "2")
	r.wantInfo(k, 1, 0, 1)
	r.unbind("amq.fanout", "", core.QueueKey{}, toExchange("inner"))
}

func deleteExchange(r *rig) {
	r.wantError(r.engine.DeleteExchange(r.ctx, "x", false), core.ErrNotFound)
	r.exchange("x", routing.Fanout)
	k := r.queue("q")
	r.bind("x", "", k)
	r.bind("x", "", core.QueueKey{}, toExchange("amq.fanout"))
	r.bind("x", "", core.QueueKey{}, toExchange("x"))
	r.bind("amq.direct", "a", core.QueueKey{}, toExchange("x"))
	r.send("amq.direct", "a", "1")
	r.wantError(r.engine.DeleteExchange(r.ctx, "x", true), core.ErrInUse)
	r.must(r.engine.DeleteExchange(r.ctx, "x", false))
	if n := r.engine.Stats().Bindings - r.first.Bindings; n != 0 {
		r.Fatalf("%d bindings left", n)
	}
	r.sendNowhere(r.message("amq.direct", "a", "2"))
	_, err := r.publish(r.message("x", "a", "3"))
	r.wantError(err, core.ErrNotFound)
	r.exchange("x", routing.Direct)
	r.sendNowhere(r.message("x", "a", "4"))
	r.must(r.engine.DeleteExchange(r.ctx, "x", true))
}

func autoDeletes(s *core.ExchangeSpec) { s.AutoDelete = true }

func (r *rig) wantNoExchange(name string) {
	r.Helper()
	r.wantError(r.engine.DeclareExchange(r.ctx, core.ExchangeSpec{Name: name, Passive: true}), core.ErrNotFound)
}

func autoDeleteExchange(r *rig) {
	r.exchange("x", routing.Direct, autoDeletes)
	k := r.queue("q")
	r.bind("x", "a", k)
	r.bind("x", "b", k)
	r.unbind("x", "a", k)
	r.send("x", "b", "1")
	r.unbind("x", "b", k)
	r.wantNoExchange("x")
}

func autoDeleteByQueue(r *rig) {
	r.exchange("x", routing.Direct, autoDeletes)
	k := r.queue("q")
	r.bind("x", "a", k)
	r.bind("x", "b", k)
	_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{})
	r.must(err)
	r.wantNoExchange("x")
}

func autoDeleteChain(r *rig) {
	r.exchange("x", routing.Fanout, autoDeletes)
	r.exchange("y", routing.Fanout, autoDeletes)
	r.exchange("z", routing.Fanout)
	k := r.queue("q")
	r.bind("x", "", core.QueueKey{}, toExchange("y"))
	r.bind("y", "", core.QueueKey{}, toExchange("z"))
	r.bind("z", "", k)
	r.send("x", "a", "1")
	r.must(r.engine.DeleteExchange(r.ctx, "z", false))
	r.wantNoExchange("y")
	r.wantNoExchange("x")
}

func badBindings(r *rig) {
	k := r.queue("q")
	for _, c := range []struct {
		title string
		spec  core.BindSpec
		kind  error
	}{
		{"no source", r.binding("nowhere", "a", k), core.ErrNotFound},
		{"no queue", r.binding("amq.direct", "a", core.Named("nobody")), core.ErrNotFound},
		{"no target exchange", r.binding("amq.direct", "a", core.QueueKey{}, toExchange("nowhere")), core.ErrNotFound},
		{"wildcard on direct", r.binding("amq.direct", "a/+", k), core.ErrInvalid},
		{"topic without filter", r.binding(core.TopicExchange, "", k), core.ErrInvalid},
		{"x-match", r.binding("amq.headers", "", k, bindArgs(routing.Headers{{Name: "x-match", Value: "some"}})), core.ErrInvalid},
	} {
		if _, err := r.engine.Bind(r.ctx, c.spec); err == nil {
			r.Errorf("%s: no error", c.title)
		} else {
			r.wantError(err, c.kind)
		}
	}
	r.wantError(r.engine.Unbind(r.ctx, r.binding("nowhere", "a", k)), core.ErrNotFound)
	r.wantError(r.engine.Unbind(r.ctx, r.binding("amq.direct", "a", core.Named("nobody"))), core.ErrNotFound)
}
