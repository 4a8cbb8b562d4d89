package core_test

import (
	"testing"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// A call has a caller who waits. What the broker would publish by itself, later or
// for want of a queue, calls nobody, and is refused when it is asked for.
func TestCallsAreMadeAtOnceOnly(t *testing.T) {
	call := func(h *house, edits ...func(*core.Message)) *core.Message {
		m := h.note("p", "x", edits...)
		m.Exchange = core.RPCExchange
		return m
	}
	delayed := withProps(core.Properties{Delay: time.Second})
	byHeader := withProps(core.Properties{Headers: routing.Headers{{Name: "x-delay", Value: "1000"}}})
	for name, ask := range map[string]func(*house, *core.Session) error{
		"a will": func(h *house, s *core.Session) error {
			_, _, err := s.Broker().Connect(h.ctx, hello("w", func(o *core.Hello) { o.Will = &core.Will{Message: call(h)} }))
			h.wantError(err, core.ErrWill)
			return err
		},
		"a testament":       func(h *house, s *core.Session) error { return s.MayPublish(call(h)) },
		"a delay":           func(h *house, s *core.Session) error { return said(h, s, call(h, delayed)) },
		"a delay, a header": func(h *house, s *core.Session) error { return said(h, s, call(h, byHeader)) },
		"a delay, in a transaction": func(h *house, s *core.Session) (err error) {
			box := h.listen("beside")
			s.Apply(nil, []core.Op{{Message: h.note("beside", "x")}, {Message: call(h, delayed)}}, func(_ bool, e error) { err = e })
			box.want()
			return err
		},
		"dead letters": func(h *house, s *core.Session) error {
			args := core.QueueArgs{DeadLetter: &core.DeadLetter{Exchange: core.RPCExchange, Key: "p", HasKey: true}}
			_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("q"), Args: args})
			return err
		},
		"dead letters under any key, by a policy": func(*house, *core.Session) error {
			_, err := core.NewPolicies(core.PolicyConfigs{{Name: "p", Pattern: "q", Arguments: map[string]any{"x-dead-letter-exchange": core.RPCExchange}}})
			return err
		},
		"an alternate exchange": func(h *house, s *core.Session) error {
			return s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "x", Kind: routing.Fanout, Alternate: core.RPCExchange})
		},
		"an exchange that is bound": func(h *house, s *core.Session) error {
			return s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Exchange: core.RPCExchange, Filter: h.filter("p")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *house) {
				w := &worker{}
				s := h.fresh("a", plain)
				h.register(s, "p", w)
				h.wantError(ask(h, s), core.ErrUnsupported)
				if len(w.got) > 0 {
					t.Error("called")
				}
			})
		})
	}
}
