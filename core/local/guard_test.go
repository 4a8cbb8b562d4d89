package local

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"entrepot/core"
	"entrepot/routing"
)

// heard writes down what came.
type heard struct{ list []string }

func (h *heard) Deliver(d core.Delivery) core.Verdict {
	h.list = append(h.list, string(d.Payload))
	return core.Settled
}

func (h *heard) take() string {
	all := strings.Join(h.list, " ")
	h.list = nil
	return all
}

// A binding brings in what its owner may have; a route that is known is found
// anew when the guard is another.
func TestGuard(t *testing.T) {
	ctx := context.Background()
	e := New(slog.New(slog.DiscardHandler))
	key := core.Key(core.TopicQueue, "q")
	if _, err := e.DeclareQueue(ctx, core.QueueSpec{Key: key}); err != nil {
		t.Fatal(err)
	}
	var h heard
	if _, err := e.Consume(ctx, key, core.ConsumeOptions{}, &h); err != nil {
		t.Fatal(err)
	}
	owner := &core.Owner{Session: 7}
	bind := func(filter string, o *core.Owner) {
		t.Helper()
		f, err := routing.ParseFilter(filter)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: f, Owner: o, Value: filter}); err != nil {
			t.Fatal(err)
		}
	}
	bind("a/#", owner)
	bind("a/+", nil)
	asked := 0
	say := func(want string) {
		t.Helper()
		for _, name := range []string{"a/x", "a/x/y"} {
			topic, err := routing.ParseTopic(name)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				e.Publish(&core.Batch{}, &core.Message{Exchange: core.TopicExchange, Topic: topic, Payload: []byte(name),
					Guarantee: core.AtLeastOnce}, nil)
			}
		}
		if got := h.take(); got != want {
			t.Errorf("%q came, want %q", got, want)
		}
	}
	say("a/x a/x a/x/y a/x/y")
	e.Guard(func(o *core.Owner, topic routing.Topic) bool {
		asked++
		return o != owner || topic.Len() == 2 && asked < 0
	})
	say("a/x a/x") // by the binding that has no owner
	if asked != 2 {
		t.Errorf("asked %d times, want once a topic", asked)
	}
	e.Guard(nil)
	say("a/x a/x a/x/y a/x/y")

	var all []core.BindSpec
	e.EachBinding(func(s core.BindSpec) { all = append(all, s) })
	if len(all) != 1 || all[0].Owner != owner || all[0].Value != "a/#" || all[0].Queue != key {
		t.Errorf("%+v", all)
	}
	if err := e.Unbind(ctx, all[0]); err != nil {
		t.Error(err)
	}
}

// Whose a binding is stays with it on disk; a group's is nobody's.
func TestOwnersOnDisk(t *testing.T) {
	o := &core.Owner{Session: 7}
	o.Principal.User, o.Principal.ClientID, o.Principal.Groups = "ann", "c", []string{"g"}
	var r bindingRecord
	r.setOwner(o)
	got := r.owner()
	if got.Session != 7 || got.Principal.User != "ann" || got.Principal.ClientID != "c" || !slices.Equal(got.Principal.Groups, o.Principal.Groups) {
		t.Errorf("%+v", got)
	}
	r.QueueKind = core.GroupQueue
	if r.owner() != nil {
		t.Error("a group's binding has an owner")
	}
	if (&bindingRecord{}).owner() == nil {
		t.Error("one of nobody, whom rules allow nothing, is wanted")
	}
}
