package core_test

import (
	"sync"
	"testing"
	"time"

	"entrepot/core"
)

func groupKey(group, filter string) core.QueueKey { return core.Key(core.GroupQueue, group, filter) }

// group takes hold of a shared subscription and binds it.
func (h *house) group(s *core.Session, group, filter string) core.QueueKey {
	h.Helper()
	k := groupKey(group, filter)
	_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: k})
	h.must(err)
	h.must(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: h.filter(filter)}))
	return k
}

func (h *house) queues() int { return h.broker.Stats().Engine.Queues }

// A group's queue lives while any session holds it, connected or not.
func TestGroupLivesWithItsHolders(t *testing.T) {
	bubble(t, func(h *house) {
		a, b := h.fresh("a"), h.fresh("b")
		k := h.group(a, "g", "t")
		h.group(b, "g", "t")
		h.group(a, "g", "t") // subscribing again is no second hold
		_, err := a.DeleteQueue(h.ctx, k, core.DeleteOptions{})
		h.must(err)
		_, err = a.DeleteQueue(h.ctx, k, core.DeleteOptions{})
		h.wantError(err, core.ErrNotFound)
		b.Close(core.CloseLost)
		h.tell(a, "t", "1")
		box := h.inbox()
		b = h.again("b")
		_, err = b.Consume(h.ctx, k, core.ConsumeOptions{}, box)
		h.must(err)
		box.want("1")
		b.Close(core.CloseLost)
		pass(time.Minute)
		if n := h.queues(); n != 0 {
			t.Errorf("%d queues after the last holder's end", n)
		}
	})
}

// A passive declare only looks.
func TestGroupPassiveDeclareHoldsNothing(t *testing.T) {
	bubble(t, func(h *house) {
		a, b := h.fresh("a"), h.fresh("b")
		k := groupKey("g", "t")
		_, err := b.DeclareQueue(h.ctx, core.QueueSpec{Key: k, Passive: true})
		h.wantError(err, core.ErrNotFound)
		h.group(a, "g", "t")
		_, err = b.DeclareQueue(h.ctx, core.QueueSpec{Key: k, Passive: true})
		h.must(err)
		_, err = a.DeleteQueue(h.ctx, k, core.DeleteOptions{})
		h.must(err)
		if n := h.queues(); n != 0 {
			t.Errorf("%d queues, want none", n)
		}
	})
}

// Groups with one name and different filters, or the other way round, have
// queues of their own.
func TestGroupsAreApart(t *testing.T) {
	bubble(t, func(h *house) {
		a := h.fresh("a")
		h.group(a, "g", "t")
		h.group(a, "g", "u")
		h.group(a, "f", "t")
		if n := h.queues(); n != 3 {
			t.Errorf("%d queues, want 3", n)
		}
	})
}

// A lost member's messages go to the others [MQTT-4.8.2].
func TestGroupMemberLost(t *testing.T) {
	bubble(t, func(h *house) {
		a, b := h.fresh("a"), h.fresh("b")
		k := h.group(a, "g", "t")
		h.group(b, "g", "t")
		lost, stays := h.holding(), h.inbox()
		_, err := a.Consume(h.ctx, k, core.ConsumeOptions{}, lost)
		h.must(err)
		_, err = b.Consume(h.ctx, k, core.ConsumeOptions{}, stays)
		h.must(err)
		for _, m := range []string{"1", "2", "3", "4"} {
			h.tell(b, "t", m)
		}
		stays.want("2", "4")
		lost.want("1", "3")
		a.Close(core.CloseLost)
		stays.want("1", "3")
	})
}

// A clean start gives up the holds of the session before.
func TestGroupCleanStart(t *testing.T) {
	bubble(t, func(h *house) {
		h.group(h.fresh("a"), "g", "t")
		h.fresh("a", clean)
		if n := h.queues(); n != 0 {
			t.Errorf("%d queues after a clean start", n)
		}
	})
}

// Members come and go at once; the last takes the queue along.
func TestGroupUnderConcurrency(t *testing.T) {
	bubble(t, func(h *house) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					s := h.fresh("member", plain)
					k := groupKey("g", "t")
					_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: k})
					h.must(err)
					c, err := s.Consume(h.ctx, k, core.ConsumeOptions{}, h.inbox())
					if err != nil { // held, so it is there
						t.Error(err)
						return
					}
					c.Cancel(core.Requeue)
					s.Close(core.CloseLost)
				}
			})
		}
		wg.Wait()
		h.wantNothing()
	})
}
