package core_test

import (
	"testing"

	"entrepot/core"
	"entrepot/routing"
)

// Nobody but the broker publishes to topics that begin with $, by whatever way:
// an exchange that is bound to amq.topic, one whose alternate that is, a dead
// letter, more routing keys (fault 43).
func TestOwnTopicsAreNotForged(t *testing.T) {
	bubble(t, func(h *house) {
		s := h.fresh("s", plain)
		key := core.Key(core.TopicQueue, "watch")
		_, err := s.DeclareQueue(h.ctx, core.QueueSpec{Key: key})
		h.must(err)
		for _, text := range []string{"$SYS/#", "#"} {
			f, err := routing.ParseFilter(text)
			h.must(err)
			h.must(s.Bind(h.ctx, core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: f.WithDollars()}))
		}
		watch := h.inbox()
		_, err = s.Consume(h.ctx, key, core.ConsumeOptions{}, watch)
		h.must(err)
		anything, err := routing.ParseFilter("#")
		h.must(err)
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "fan", Kind: routing.Fanout}))
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "any", Kind: routing.TopicKind}))
		h.must(s.DeclareExchange(h.ctx, core.ExchangeSpec{Name: "none", Kind: routing.Direct, Alternate: core.TopicExchange}))
		h.must(s.Bind(h.ctx, core.BindSpec{Source: "fan", Exchange: core.TopicExchange}))
		h.must(s.Bind(h.ctx, core.BindSpec{Source: "any", Exchange: core.TopicExchange, Filter: anything.WithDollars()}))
		send := func(exchange, topic string, edits ...func(*core.Message)) {
			m := &core.Message{Exchange: exchange, Topic: topicOf(t, topic), Payload: []byte(exchange + topic), Guarantee: core.AtLeastOnce}
			for _, edit := range edits {
				edit(m)
			}
			s.Publish(nil, m, nil)
		}
		for _, exchange := range []string{core.TopicExchange, "fan", "any", "none"} {
			send(exchange, "$SYS/broker/version")
		}
		send(core.TopicExchange, "cc", func(m *core.Message) {
			m.Props = &core.Properties{CC: []routing.Topic{topicOf(t, "$SYS/broker/version")}}
		})
		_, err = s.DeclareQueue(h.ctx, core.QueueSpec{Key: core.Named("dies"), Args: core.QueueArgs{MaxLength: 0, HasMaxLength: true,
			DeadLetter: &core.DeadLetter{Exchange: core.TopicExchange, HasKey: true, Key: "$SYS.broker.version"}}})
		h.must(err)
		send("", "dies")
		watch.want()
		for _, exchange := range []string{"fan", "any", "none"} { // what is not the broker's own goes these ways
			send(exchange, "a")
		}
		watch.want("fana", "anya", "nonea")
		h.broker.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: topicOf(t, "$SYS/broker/version"), Payload: []byte("own")})
		watch.want("own")
	})
}
