package main

import (
	"fmt"
	"strings"

	"entrepot/core/auth"
	"entrepot/routing"
)

// addressKind is one way to write an object: what it begins with, whose clients
// write it ("" for rules), and how the rest is spelt.
type addressKind struct {
	prefix, of, spelling string
	kind                 auth.ObjectKind
}

func addressKinds() []addressKind {
	return []addressKind{
		{"queue:", "", "", auth.Queue}, {"exchange:", "", "", auth.Exchange}, {"rpc:", "", "mqtt", auth.Procedure}, {"topic:", "", "mqtt", auth.Topic},
		{"/topic/", "stomp", "stomp", auth.Topic}, {"/rpc/", "stomp", "stomp", auth.Procedure},
		{"/queue/", "stomp", "level", auth.Queue}, {"/amq/queue/", "stomp", "level", auth.Queue}, {"/exchange/", "stomp", "stomp", auth.Exchange},
		{"$queue/", "mqtt", "level", auth.Queue}, {"$rpc/", "mqtt", "mqtt", auth.Procedure}, {"$exchange/", "mqtt", "mqtt", auth.Exchange},
		{"/t/", "coap", "coap", auth.Topic}, {"/q/", "coap", "", auth.Queue}, {"/x/", "coap", "coap", auth.Exchange},
	}
}

// objectOf reads an object: as rules write it, or as an address of a protocol,
// of that one only where spelling says which.
func objectOf(text, spelling string) (auth.Object, error) {
	if spelling == "" || spelling == "mqtt" {
		if rest, ok := strings.CutPrefix(text, "$share/"); ok {
			_, filter, _ := strings.Cut(rest, "/")
			o, err := objectAs(filter, "mqtt", auth.Topic)
			o.Whole = true // its members get the same
			return o, err
		}
		if rest, ok := strings.CutPrefix(text, "$delayed/"); ok {
			_, text, _ = strings.Cut(rest, "/")
		}
	}
	for _, p := range addressKinds() {
		rest, ok := strings.CutPrefix(text, p.prefix)
		switch {
		case !ok || spelling != "" && p.of != "" && p.of != spelling:
		case p.kind == auth.Exchange && p.of != "":
			return exchangeOf(rest, p.spelling)
		default:
			return objectAs(rest, p.spelling, p.kind)
		}
	}
	if spelling == "" {
		spelling = "mqtt"
	}
	return objectAs(text, spelling, auth.Topic)
}

// exchangeOf reads NAME/KEY. What is at amq.topic is a topic.
func exchangeOf(text, spelling string) (auth.Object, error) {
	name, key, _ := strings.Cut(text, "/")
	o, err := objectAs(name, "level", auth.Exchange)
	if err == nil && o.Name == "amq.topic" {
		return objectAs(key, spelling, auth.Topic)
	}
	return o, err
}

func objectAs(text, spelling string, kind auth.ObjectKind) (auth.Object, error) {
	var f routing.Filter
	var err error
	switch spelling {
	case "":
		return auth.Object{Kind: kind, Name: text}, nil
	case "level":
		t, err := routing.ParseTopic(text)
		if err != nil || t.Len() != 1 {
			return auth.Object{}, fmt.Errorf("%q: a name of a queue or an exchange is one level", text)
		}
		return auth.Object{Kind: kind, Name: t.Levels()[0]}, nil
	case "mqtt":
		f, err = routing.ParseFilter(text)
	case "stomp":
		f, err = routing.Dotted.ParseAngle(text)
	case "amqp":
		f, err = routing.Dotted.ParseFilter(text)
	case "wamp":
		f, err = routing.URI.ParseFilter(text)
	case "coap":
		var t routing.Topic
		t, err = routing.NewTopic(strings.Split(text, "/")...)
		f = t.Filter()
	default:
		return auth.Object{}, fmt.Errorf("no spelling %q: mqtt, stomp, amqp, wamp or coap", spelling)
	}
	if err != nil {
		return auth.Object{}, fmt.Errorf("%q: %w", text, err)
	}
	return auth.Object{Kind: kind, Name: f.String()}, nil
}
