package core_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/auth"
)

// logged is ann after her log-in by a door.
func (h *house) logged(d *auth.Door, user string) func(*core.Hello) {
	h.Helper()
	who, err := d.Admit(h.ctx, auth.Credentials{Protocol: "mqtt", User: user, Password: "secret"})
	h.must(err)
	return func(c *core.Hello) {
		c.Principal = who
		c.Principal.ClientID = c.ClientID
	}
}

// Whoever leaves a group while the broker is down has nothing of it when that is
// there again: not what a session that waits has bound, not what a queue gets that
// nobody consumes from, and a will that is due is not sent [fault 48] [fault 36].
func TestGroupLeftWhileDown(t *testing.T) {
	eachEnd(t, func(c *bunker, end func(time.Duration)) {
		rules, err := auth.ParseRules([]byte("allow group:ops all\nallow user:ann subscribe,publish own/#\nallow user:pub all\n"))
		c.must(err)
		d := door(t, "ann:%s groups=ops", "pub:%s")
		c.prepare = func(b *core.Broker) { b.SetPolicy(rules.Decide); b.SetDoor(d) }
		end(0)
		l := c.fresh("l", c.logged(d, "pub"), expiry(core.Forever))
		c.lasting(l, "l", "+/will")
		s := c.fresh("a", c.logged(d, "ann"), expiry(time.Hour))
		c.lasting(s, "a", "t/#")
		c.bind(s, "a", "own/#")
		_, err = s.DeclareQueue(c.ctx, core.QueueSpec{Key: core.Named("q"), Durable: true})
		c.must(err)
		c.must(s.Bind(c.ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("q"), Filter: c.filter("t/#")}))
		for _, topic := range []string{"t/will", "own/will"} {
			w := c.fresh(topic, c.logged(d, "ann"), expiry(time.Hour), func(h *core.Hello) {
				h.Will = &core.Will{Message: c.note(topic, topic, durable), Delay: time.Minute}
			})
			w.Close(core.CloseLost)
		}

		d = door(t, "ann:%s", "pub:%s")
		end(2 * time.Minute)
		pass(2 * time.Minute) // after a crash wills wait from the start on
		p := c.fresh("p", plain, c.logged(d, "pub"))
		for _, topic := range []string{"t/1", "own/1"} {
			c.tell(p, topic, topic, durable)
		}
		wills, box := c.inbox(), c.inbox()
		c.consume(c.again("l", c.logged(d, "pub"), expiry(core.Forever)), "l", wills)
		wills.want("own/will")
		c.consume(c.again("a", c.logged(d, "ann"), expiry(time.Hour)), "a", box)
		box.want("own/will", "own/1")
		info, err := p.DeclareQueue(c.ctx, core.QueueSpec{Key: core.Named("q"), Passive: true})
		c.must(err)
		if info.Messages != 0 {
			t.Errorf("%d messages in a queue that was bound with a group's rights", info.Messages)
		}
	})
}

// A group that is entered, or left and entered again, counts at once for what is
// there of users who are away.
func TestGroupEnteredWhileAway(t *testing.T) {
	bubble(t, func(h *house) {
		d := door(t, "ann:%s groups=a,b", "pub:%s")
		h.broker.SetDoor(d)
		h.rules("allow group:b subscribe #", "allow group:c subscribe #", "allow user:pub publish #")
		s := h.fresh("a", h.logged(d, "ann"))
		h.queue(s, "a")
		h.bind(s, "a", "t")
		s.Close(core.CloseLost)
		h.broker.SetDoor(door(t, "ann:%s groups=c", "pub:%s"))
		d = door(t, "ann:%s groups=b,c", "pub:%s")
		h.broker.SetDoor(d)
		h.tell(h.fresh("p", plain, h.logged(d, "pub")), "t", "1")
		box := h.inbox()
		h.consume(h.again("a", h.logged(d, "ann")), "a", box)
		box.want("1")
	})
}

// What a token or a log-in in the middle of a session said last is what counts
// when its client is away.
func TestRenewedGroupsWhileAway(t *testing.T) {
	bubble(t, func(h *house) {
		h.rules("allow group:ops subscribe #", "allow user:pub publish #")
		s := h.fresh("a", as("ann", "ops"))
		group := core.Key(core.GroupQueue, "g", "t")
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: group})
		h.must(err)
		h.must(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: group, Filter: h.filter("t")}))
		h.must(s.Renew(auth.Principal{User: "ann", Groups: []string{"ops", "dev"}}))
		synctest.Wait()
		s.Close(core.CloseLost)
		h.rules("allow group:dev subscribe #", "allow user:pub publish #")
		if n := h.queues(); n != 1 {
			t.Errorf("%d queues: the group's is there with the right of its member", n)
		}
		h.rules("allow group:ops publish #")
		if n := h.queues(); n != 0 {
			t.Errorf("%d queues", n)
		}
	})
}

// A session that was stored when there were no users is whose asks first, once
// there are; what it bound has that user's rights from then on, and nobody else
// comes by it, or by its name [fault 48].
func TestSessionFromBeforeUsers(t *testing.T) {
	for first, second := range map[string]string{"ann": "bob", "bob": "ann"} {
		eachEnd(t, func(c *bunker, end func(time.Duration)) {
			s := c.fresh("a", expiry(core.Forever))
			c.lasting(s, "a", "ann/#")
			c.bind(s, "a", "bob/#")
			c.bind(s, "a", "open")
			d := door(t, "ann:%s", "bob:%s", "pub:%s")
			rules, err := auth.ParseRules([]byte("allow authenticated subscribe %u/#\nallow anyone subscribe open\nallow user:pub publish #\n"))
			c.must(err)
			c.prepare = func(b *core.Broker) { b.SetPolicy(rules.Decide); b.SetDoor(d) }
			end(time.Minute)

			// Nobody in particular has what everybody may.
			publish := func(text string) {
				p := c.fresh("p", plain, c.logged(d, "pub"))
				for _, topic := range []string{"ann/1", "bob/1", "open"} {
					c.tell(p, topic, topic+text, durable)
				}
			}
			publish(" 1")
			_, _, err = c.broker.Connect(c.ctx, hello("a", expiry(core.Forever)))
			c.wantError(err, core.ErrNotAllowed)
			again := c.again("a", c.logged(d, first), expiry(core.Forever))
			for _, f := range []string{"ann/#", "bob/#", "open"} { // as adapters do
				err := again.Rebind(c.ctx, core.BindSpec{Source: core.TopicExchange, Queue: sessionQueue("a"), Filter: c.filter(f)})
				if mine := f != second+"/#"; mine != (err == nil) {
					t.Errorf("%s: %s: %v", first, f, err)
				}
			}
			box := c.inbox()
			c.consume(again, "a", box)
			publish(" 2")
			box.want("open 1", first+"/1 2", "open 2")
			for _, how := range []func(*core.Hello){expiry(core.Forever), clean} {
				_, _, err = c.broker.Connect(c.ctx, hello("a", c.logged(d, second), how))
				c.wantError(err, core.ErrNotAllowed)
			}
			end(time.Minute)
			_, _, err = c.broker.Connect(c.ctx, hello("a", c.logged(d, second), expiry(core.Forever)))
			c.wantError(err, core.ErrNotAllowed)
			c.again("a", c.logged(d, first), expiry(core.Forever))
		})
	}
}

// What an owner that is gone bound is of its groups, too; one that nothing is
// known of stays.
func TestRegroup(t *testing.T) {
	old, now := door(t, "ann:%s groups=a,b", "bob:%s"), door(t, "ann:%s groups=b,c")
	for _, c := range []struct {
		title  string
		before *auth.Door
		user   string
		had    []string
		want   []string
	}{
		{"left and entered", old, "ann", []string{"a", "b"}, []string{"b", "c"}},
		{"one of the token's stays", old, "ann", []string{"a", "b", "t"}, []string{"b", "c", "t"}},
		{"after a start the file is all", nil, "ann", []string{"a", "x"}, []string{"b", "c"}},
		{"nobody's", old, "", nil, nil},
		{"not in the file, then and now", old, "eve", []string{"t"}, []string{"t"}},
		{"not in the file, after a start", nil, "eve", []string{"t"}, nil},
		{"nothing is new", now, "ann", []string{"b", "c"}, []string{"b", "c"}},
	} {
		got := now.Regroup(auth.Principal{User: c.user, Groups: c.had}, c.before)
		if !slices.Equal(got.Groups, c.want) || got.User != c.user {
			t.Errorf("%s: %v, want %v", c.title, got.Groups, c.want)
		}
	}
}
