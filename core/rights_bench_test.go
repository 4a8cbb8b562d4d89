package core_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/routing"
)

// drain takes everything and is done with it.
type drain struct{ n int }

func (d *drain) Deliver(core.Delivery) core.Verdict {
	d.n++
	return core.Settled
}

// ruleFile is n rules for a plant with sites, of which the last lets ann do what
// the benchmark does; 0 is no policy.
func ruleFile(b *testing.B, n int) auth.Policy {
	if n == 0 {
		return nil
	}
	var text strings.Builder
	for i := range n - 1 {
		kinds := []string{"allow user:u%d publish,subscribe plant/%d/#", "allow group:g%d subscribe plant/%d/+/temp",
			"allow authenticated publish,subscribe plant/own%d/%%u/%d", "deny anyone publish plant/odd%d/%d/valve"}
		fmt.Fprintf(&text, kinds[i%4]+"\n", i, i)
	}
	r, err := auth.ParseRules([]byte(text.String() + "allow user:ann publish,subscribe plant/#\n"))
	if err != nil {
		b.Fatal(err)
	}
	return r.Decide
}

// BenchmarkPublishRuled is what a message costs with one subscriber, by how many
// rules there are and how many topics the client publishes to in turn. The policy is
// asked once for a topic while the session remembers it (maxGrants).
func BenchmarkPublishRuled(b *testing.B) {
	for _, topics := range []int{1, 200, 2000} {
		for _, rules := range []int{0, 1, 100, 1000} {
			b.Run(fmt.Sprintf("topics=%d/rules=%d", topics, rules), func(b *testing.B) { publishRuled(b, topics, rules) })
		}
	}
}

func publishRuled(b *testing.B, topics, rules int) {
	e := local.New(quiet())
	broker := core.NewBroker(core.DefaultConfig(), "realm", e, ruleFile(b, rules), quiet())
	ctx := context.Background()
	who := auth.Principal{User: "ann", Groups: []string{"g1", "g5"}}
	connect := func(id string) *core.Session {
		s, _, err := broker.Connect(ctx, core.Hello{Protocol: "mqtt", ClientID: id, Principal: who})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	from, to := connect("from"), connect("to")
	k := core.Key(core.SessionQueue, "to")
	filter, err := routing.ParseFilter("plant/#")
	if err == nil {
		_, err = to.DeclareQueue(ctx, core.QueueSpec{Key: k, Exclusive: true})
	}
	if err == nil {
		err = to.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: k, Filter: filter})
	}
	got := &drain{}
	if err == nil {
		_, err = to.Consume(ctx, k, core.ConsumeOptions{}, got)
	}
	if err != nil {
		b.Fatal(err)
	}
	messages := make([]*core.Message, topics)
	for i := range messages {
		m := core.NewMessage(64)
		m.Exchange = core.TopicExchange
		if m.Topic, err = routing.NewTopic("plant", fmt.Sprint(i), "temp"); err != nil {
			b.Fatal(err)
		}
		messages[i] = m
	}
	lane := &core.Lane{Batch: &core.Batch{}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		from.Publish(lane, messages[i%topics], nil)
	}
	if got.n != b.N {
		b.Fatalf("%d of %d delivered", got.n, b.N)
	}
}
