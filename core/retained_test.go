package core_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/local"
)

func replay(r core.Replay) func(*core.BindSpec) { return func(b *core.BindSpec) { b.Replay = r } }

func (h *house) retained(s *core.Session, topic string) string {
	h.Helper()
	m, err := s.Retained(h.topic(topic))
	h.must(err)
	if m == nil {
		return "none"
	}
	return string(m.Payload)
}

// [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-8] the last value is kept, an empty
// one clears.
func TestRetainedIsTheLastValue(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		h.tell(s, "t", "1", retain)
		h.tell(s, "t", "2", retain)
		h.tell(s, "t", "3")
		h.tell(s, "u", "other", retain)
		if got := h.retained(s, "t"); got != "2" {
			t.Errorf("kept %q, want 2", got)
		}
		h.tell(s, "t", "", retain)
		h.tell(s, "nobody", "", retain)
		if got := h.retained(s, "t"); got != "none" {
			t.Errorf("kept %q after an empty one", got)
		}
		if st := h.broker.Stats(); st.Retained != 1 || st.RetainedBytes != 5 {
			t.Errorf("%d kept, %d bytes, want 1 and 5", st.Retained, st.RetainedBytes)
		}
	})
}

// A retained message is delivered live as well, an empty one too, and is not
// marked as replayed then [MQTT-3.3.1-12].
func TestRetainedIsDeliveredLive(t *testing.T) {
	bubble(t, func(h *house) {
		box := h.listen("t")
		s := h.fresh("a")
		h.tell(s, "t", "1", retain)
		h.tell(s, "t", "", retain)
		for _, d := range box.want("1", "") {
			if d.Replayed || !d.Retain {
				t.Errorf("%q: replayed %v, retain %v", d.Payload, d.Replayed, d.Retain)
			}
		}
	})
}

// What a Bind replays, by its wish and by what matches [MQTT-3.3.1-9 to 11].
func TestReplayOfBind(t *testing.T) {
	for _, c := range []struct {
		title  string
		filter string
		replay core.Replay
		first  bool // the binding is there before
		want   []string
	}{
		{"never", "#", core.ReplayNever, false, nil},
		{"if new, and it is", "a/+", core.ReplayIfNew, false, []string{"a/1", "a/2"}},
		{"if new, and it is not", "a/+", core.ReplayIfNew, true, nil},
		{"always, new", "a/1", core.ReplayAlways, false, []string{"a/1"}},
		{"always, there before", "a/#", core.ReplayAlways, true, []string{"a/1", "a/2"}},
		{"wildcard in the middle", "+/1", core.ReplayAlways, false, []string{"a/1", "b/1"}},
		{"everything but $", "#", core.ReplayAlways, false, []string{"a/1", "a/2", "b/1"}},
		{"$", "$SYS/#", core.ReplayAlways, false, []string{"$SYS/x"}},
		{"nothing matches", "c", core.ReplayAlways, false, nil},
	} {
		t.Run(c.title, func(t *testing.T) {
			bubble(t, func(h *house) {
				s := h.fresh("a")
				for _, topic := range []string{"a/1", "a/2", "b/1"} {
					h.tell(s, topic, topic, retain)
				}
				h.broker.PublishOwn(h.note("$SYS/x", "$SYS/x", retain))
				box := h.inbox()
				h.queue(s, "a")
				h.consume(s, "a", box)
				if c.first {
					h.bind(s, "a", c.filter)
				}
				h.bind(s, "a", c.filter, replay(c.replay), func(b *core.BindSpec) { b.Value = "v" })
				got := box.take()
				payloads := texts(got)
				if slices.Sort(payloads); !slices.Equal(payloads, c.want) {
					t.Fatalf("replayed %q, want %q", payloads, c.want)
				}
				for _, d := range got {
					if !d.Replayed || len(d.Matched) != 1 || d.Matched[0] != "v" {
						t.Errorf("%q: replayed %v, matched %v", d.Payload, d.Replayed, d.Matched)
					}
				}
			})
		})
	}
}

// A replay that waits for room gives the value of the time it is delivered,
// or nothing when a newer one went out live.
// It shows fault 34.
func TestReplayIsNeverStale(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		for _, topic := range []string{"same", "newer", "cleared"} {
			h.tell(s, topic, topic+" old", retain)
		}
		h.tell(s, "expired", "expired old", retain, ttl(time.Hour))
		h.queue(s, "a")
		h.bind(s, "a", "#", replay(core.ReplayAlways))
		h.tell(s, "newer", "newer new", retain)
		h.tell(s, "cleared", "", retain)
		pass(2 * time.Hour)
		box := h.inbox()
		h.consume(s, "a", box)
		got := texts(box.take())
		slices.Sort(got)
		if want := []string{"", "newer new", "same old"}; !slices.Equal(got, want) {
			t.Errorf("received %q, want %q", got, want)
		}
	})
}

// [MQTT-3.3.2-5] A retained message goes when its time is over; its clock
// starts anew with a new value.
// It shows fault 91.
func TestRetainedExpires(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		h.tell(s, "t", "1", retain, ttl(time.Second))
		pass(900 * time.Millisecond)
		h.tell(s, "t", "2", retain, ttl(time.Second))
		pass(900 * time.Millisecond)
		if got := h.retained(s, "t"); got != "2" {
			t.Errorf("kept %q, want 2", got)
		}
		pass(100 * time.Millisecond)
		if got := h.retained(s, "t"); got != "none" {
			t.Errorf("kept %q after its time", got)
		}
		if st := h.broker.Stats(); st.Retained != 0 || st.RetainedBytes != 0 {
			t.Errorf("%d kept, %d bytes", st.Retained, st.RetainedBytes)
		}
		h.tell(s, "t", "3", retain, ttl(time.Second))
		h.tell(s, "t", "4", retain)
		pass(time.Hour)
		if got := h.retained(s, "t"); got != "4" {
			t.Errorf("kept %q, want 4, which does not expire", got)
		}
	})
}

// The broker's own messages expire as others do.
func TestOwnMessagesExpire(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		h.broker.PublishOwn(h.note("$SYS/x", "1", retain, ttl(time.Second)))
		if got := h.retained(s, "$SYS/x"); got != "1" {
			t.Errorf("kept %q, want 1", got)
		}
		pass(time.Second)
		if got := h.retained(s, "$SYS/x"); got != "none" {
			t.Errorf("kept %q after its time", got)
		}
	})
}

// Over the limits a new value is refused, the old one stays, nothing is
// routed; making room helps.
// It shows fault 91.
func TestRetainedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := core.DefaultConfig()
		cfg.MaxRetained, cfg.MaxRetainedBytes = 2, 10
		h := houseOn(t, local.New(quiet()), cfg, nil)
		box := h.listen("#")
		s := h.fresh("a")
		h.tell(s, "a", "1", retain)
		h.tell(s, "b", "22", retain)
		for topic, payload := range map[string]string{"c": "3", "a": strings.Repeat("x", 9)} {
			routed, err := h.say(s, h.note(topic, payload, retain))
			h.wantError(err, core.ErrFull)
			if routed {
				t.Error("routed beside a refusal")
			}
		}
		s.Publish(nil, h.note("c", "3", retain), nil)
		if n := h.dropped("mqtt", core.DropOverflow); n != 1 {
			t.Errorf("%d counted of those who were not told, want 1", n)
		}
		h.tell(s, "a", strings.Repeat("x", 8), retain)
		h.tell(s, "b", "", retain)
		h.tell(s, "c", "33", retain)
		box.want("1", "22", "xxxxxxxx", "", "33")
	})
}

// Retain is for topics.
func TestRetainElsewhere(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		_, err := h.say(s, h.note("t", "1", retain, func(m *core.Message) { m.Exchange = "amq.fanout" }))
		h.wantError(err, core.ErrUnsupported)
		s.Apply(nil, []core.Op{{Message: h.note("t", "1", retain)}}, func(_ bool, e error) { err = e })
		h.wantError(err, core.ErrUnsupported)
		if got := h.retained(s, "t"); got != "none" {
			t.Errorf("kept %q", got)
		}
	})
}

// Done of a retained message is called with no lock held: it may publish to
// the same topic and bind.
func TestDoneOfRetainedIsFree(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		h.queue(s, "a")
		calls := 0
		lane := core.NewLane(&core.Batch{})
		s.Publish(lane, h.note("t", "1", retain), func(bool, error) {
			calls++
			h.bind(s, "a", "t", replay(core.ReplayAlways))
			s.Publish(nil, h.note("t", "2", retain), func(bool, error) { calls++ })
		})
		if calls != 2 {
			t.Errorf("%d Done, want 2", calls)
		}
	})
}

// Two publishers, many topics, subscribers that come meanwhile: each gets for
// each topic no older value after a newer, and at the end the last one.
func TestReplayAndLiveInOrder(t *testing.T) {
	bubble(t, func(h *house) {
		const topics, values, subscribers = 5, 200, 20
		var wg sync.WaitGroup
		for p := range topics {
			s := h.fresh(fmt.Sprint("p", p), plain)
			wg.Go(func() {
				for v := range values {
					s.Publish(nil, h.note(fmt.Sprint("t/", p), strconv.Itoa(v), retain), nil)
				}
			})
		}
		boxes := make([]*inbox, subscribers)
		for i := range boxes {
			boxes[i] = h.inbox()
			wg.Go(func() {
				id := fmt.Sprint("s", i)
				s := h.fresh(id, plain)
				h.queue(s, id)
				h.consume(s, id, boxes[i])
				h.bind(s, id, "t/+", replay(core.ReplayAlways))
				if i%2 == 0 { // asks again
					h.bind(s, id, "t/+", replay(core.ReplayAlways))
				}
			})
		}
		wg.Wait()
		for i, box := range boxes {
			last := map[string]int{}
			for _, d := range box.take() {
				v, err := strconv.Atoi(string(d.Payload))
				h.must(err)
				was, seen := last[d.Topic.String()]
				// A value may come twice, live and replayed, when it is asked
				// for again, but none older.
				if seen && v < was {
					t.Errorf("subscriber %d: %s has %d after %d", i, d.Topic, v, was)
				}
				last[d.Topic.String()] = v
			}
			for p := range topics {
				if v := last[fmt.Sprint("t/", p)]; v != values-1 {
					t.Errorf("subscriber %d: topic %d ends at %d", i, p, v)
				}
			}
		}
	})
}

// A subscriber that binds once gets each topic's value once: replayed or live.
func TestReplayOrLiveOnce(t *testing.T) {
	bubble(t, func(h *house) {
		const rounds = 200
		p := h.fresh("p", plain)
		var boxes []*inbox
		var wg sync.WaitGroup
		for i := range rounds {
			id := fmt.Sprint("s", i)
			s := h.fresh(id, plain)
			h.queue(s, id)
			box := h.inbox()
			h.consume(s, id, box)
			boxes = append(boxes, box)
			wg.Go(func() { h.bind(s, id, "t/"+id, replay(core.ReplayIfNew)) })
			wg.Go(func() { p.Publish(nil, h.note("t/"+id, id, retain), nil) })
		}
		wg.Wait()
		for i, box := range boxes {
			box.want(fmt.Sprint("s", i))
		}
	})
}

// yielding is an engine that lets others go first.
type yielding struct{ core.Engine }

func (e yielding) Publish(b *core.Batch, m *core.Message, done core.Done) {
	for range 10 {
		runtime.Gosched()
	}
	e.Engine.Publish(b, m, done)
}

// Publishers of one topic: what is kept is what went out last.
func TestStoredAndRoutedInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := houseOn(t, yielding{local.New(quiet())}, core.DefaultConfig(), nil)
		box := h.listen("t")
		reader := h.fresh("reader")
		for range 20 {
			var wg sync.WaitGroup
			for p := range 4 {
				s := h.fresh(fmt.Sprint("p", p), plain)
				wg.Go(func() {
					for v := range 25 {
						s.Publish(nil, h.note("t", fmt.Sprint(p, " ", v), retain), nil)
					}
				})
			}
			wg.Wait()
			got := texts(box.take())
			if kept := h.retained(reader, "t"); len(got) != 100 || kept != got[99] {
				t.Fatalf("%d received, the last %q, kept %q", len(got), got[len(got)-1], kept)
			}
		}
	})
}

// Values are listed by filter, those that the session may not read left out.
// It shows fault 51.
func TestEachRetained(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("a")
		for _, topic := range []string{"a/1", "a/2", "b/1", "$x"} {
			if topic[0] == '$' {
				h.broker.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: h.topic(topic), Payload: []byte("x"), Retain: true})
				continue
			}
			h.tell(s, topic, "x", retain)
		}
		list := func(filter string, most int) []string {
			var got []string
			s.EachRetained(h.filter(filter), func(m *core.Message) bool {
				got = append(got, m.Topic.String())
				return len(got) < most
			})
			slices.Sort(got)
			return got
		}
		if got := list("a/#", 10); !slices.Equal(got, []string{"a/1", "a/2"}) {
			t.Errorf("a/#: %v", got)
		}
		if got := list("#", 10); !slices.Equal(got, []string{"a/1", "a/2", "b/1"}) {
			t.Errorf("#: %v", got)
		}
		if got := list("#", 2); len(got) != 2 {
			t.Errorf("two of #: %v", got)
		}
	})
}
