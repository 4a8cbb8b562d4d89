package routing_test

import (
	"fmt"
	"slices"

	"entrepot/routing"
)

// One topic, written as each protocol writes it.
func ExampleTopic() {
	topic, err := routing.NewTopic("spBv1.0", "g1", "on news")
	if err != nil {
		panic(err)
	}
	amqp, _ := routing.Dotted.PrintTopic(topic)
	wamp, _ := routing.URI.PrintTopic(topic)
	coap, _ := routing.Path.PrintTopic(topic)
	fmt.Println("MQTT", topic)
	fmt.Println("AMQP", amqp)
	fmt.Println("WAMP", wamp)
	fmt.Printf("CoAP %q\n", coap)
	// Output:
	// MQTT spBv1.0/g1/on news
	// AMQP spBv1%2E0.g1.on news
	// WAMP spBv1%2E0.g1.on%20news
	// CoAP ["spBv1.0" "g1" "on news"]
}

// An AMQP binding key sees topics that begin with '$'; an MQTT filter does not.
func ExampleFilter_WithDollars() {
	topic, _ := routing.MQTT.ParseTopic("$SYS/uptime")
	mqtt, _ := routing.MQTT.ParseFilter("#")
	amqp, _ := routing.Dotted.ParseFilter("#")
	fmt.Println(mqtt.Match(topic), amqp.WithDollars().Match(topic))
	// Output: false true
}

// What a client wrote wrong, in a sentence.
func ExampleTextError() {
	_, err := routing.MQTT.ParseFilter("plant/#/temp")
	fmt.Println(err)
	// Output: filter refused: an any-levels wildcard where none is allowed, level 1, byte 6
}

// A WAMP prefix may cut inside a level.
func ExamplePrefix() {
	p, _ := routing.URI.ParsePrefix("com.my")
	topic, _ := routing.MQTT.ParseTopic("com/myapp/news")
	other, _ := routing.MQTT.ParseTopic("com/other")
	fmt.Println(p.Filter, p.Match(topic), p.Match(other))
	// Output: com/# true false
}

func ExampleTable() {
	var subscriptions routing.Table[string]
	for client, text := range map[string]string{"a": "plant/+/temp", "b": "plant/#", "c": "plant/8/temp"} {
		f, _ := routing.MQTT.ParseFilter(text)
		subscriptions.Add(f, client)
	}
	topic, _ := routing.MQTT.ParseTopic("plant/7/temp")
	var clients []string
	subscriptions.Match(topic, func(client string) { clients = append(clients, client) })
	slices.Sort(clients)
	fmt.Println(clients)
	// Output: [a b]
}

func ExampleTree() {
	var retained routing.Tree[int]
	for i, text := range []string{"plant/7/temp", "plant/8/temp", "plant/8/on"} {
		topic, _ := routing.MQTT.ParseTopic(text)
		retained.Set(topic, i)
	}
	f, _ := routing.MQTT.ParseFilter("plant/8/#")
	n := 0
	retained.Match(f, func(routing.Topic, int) bool { n++; return true })
	fmt.Println(n, "of", retained.Len())
	// Output: 2 of 3
}

func ExampleRouter() {
	r := routing.NewRouter[string]()
	_ = r.Declare("amq.topic", routing.TopicKind, "")
	_ = r.Declare("audit", routing.Fanout, "")
	all, _ := routing.Dotted.ParseFilter("#")
	temps, _ := routing.Dotted.ParseFilter("plant.*.temp")
	for _, b := range []routing.Binding[string]{
		{Source: "amq.topic", Queue: "temps", Filter: temps, Value: "QoS 1"},
		{Source: "amq.topic", Exchange: "audit", Filter: all},
		{Source: "audit", Queue: "log"},
	} {
		if _, err := r.Bind(b); err != nil {
			panic(err)
		}
	}
	topic, _ := routing.Dotted.ParseTopic("plant.7.temp")
	cacheable, _ := r.Route("amq.topic", topic, nil, func(queue string, value any) { fmt.Println(queue, value) })
	fmt.Println("cacheable", cacheable)
	// Unordered output:
	// temps QoS 1
	// log <nil>
	// cacheable true
}
