package core_test

import (
	"testing"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// A delay comes by the field or by the header x-delay, which is not passed on;
// bad ones are refused and nothing is done.
func TestPublishReadsTheDelay(t *testing.T) {
	for _, c := range []struct {
		title string
		value any
		want  time.Duration
		kind  error
	}{
		{"number", int32(1500), 1500 * time.Millisecond, nil},
		{"text", "2000", 2 * time.Second, nil},
		{"none", int64(0), 0, nil},
		{"negative: none", int32(-5), 0, nil},
		{"the longest", int64(1<<32 - 1), (1<<32 - 1) * time.Millisecond, nil},
		{"too long", int64(1 << 32), 0, core.ErrInvalid},
		{"far too long", uint64(1 << 63), 0, core.ErrInvalid},
		{"text too long", "99999999999999999999", 0, core.ErrInvalid},
		{"no number", "soon", 0, core.ErrInvalid},
		{"a fraction", 1.5, 0, core.ErrInvalid},
		{"nothing", nil, 0, core.ErrInvalid},
	} {
		t.Run(c.title, func(t *testing.T) {
			p := &core.Properties{Headers: routing.Headers{{Name: "k", Value: "v"}, {Name: "x-delay", Value: c.value}}}
			wantDelay(t, p, c.want, c.kind)
			if _, there := p.Headers.Get("x-delay"); there && c.kind == nil {
				t.Error("the header is passed on")
			}
		})
	}
	wantDelay(t, &core.Properties{Delay: -1}, 0, core.ErrInvalid)
	wantDelay(t, &core.Properties{Delay: time.Second}, time.Second, nil)
	wantDelay(t, &core.Properties{Due: time.Now().Add(100 * 24 * time.Hour)}, 0, core.ErrInvalid)
}

func wantDelay(t *testing.T, p *core.Properties, want time.Duration, kind error) {
	t.Helper()
	bubble(t, func(h *house) { h.wantDelay(p, want, kind) })
}

func (h *house) wantDelay(p *core.Properties, want time.Duration, kind error) {
	h.Helper()
	_, err := h.say(h.fresh("p"), h.note("a", "m", func(m *core.Message) { m.Props = p }))
	if kind == nil {
		h.must(err)
	} else {
		h.wantError(err, kind)
	}
	if kind == nil && (p.Delay != want || want > 0 && time.Until(p.Due).Round(time.Second) != want.Round(time.Second)) {
		h.Errorf("delay %v, due in %v, want %v", p.Delay, time.Until(p.Due), want)
	}
	if n := h.broker.Stats().Engine.Delayed; kind != nil && n != 0 {
		h.Errorf("%d wait", n)
	}
}
