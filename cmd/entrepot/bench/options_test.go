package bench

import (
	"strings"
	"testing"
)

func TestDefaultOptionsAreValid(t *testing.T) {
	for _, kind := range []string{Pair, FanOut, Idle} {
		o := DefaultOptions()
		o.Kind = kind
		if _, _, err := o.complete(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	tests := []struct {
		want string
		set  func(*Options)
	}{
		{"option kind", func(o *Options) { o.Kind = "triangle" }},
		{"option publishers", func(o *Options) { o.Publishers = 3 }},
		{"option subscribers", func(o *Options) { o.Subscribers = 0 }},
		{"option size", func(o *Options) { o.Size = 15 }},
		{"option size", func(o *Options) { o.Size, o.Latency = 23, 1 }},
		{"option qos", func(o *Options) { o.QoS = 3 }},
		{"option mqtt-version", func(o *Options) { o.MQTTVersion = "3.1" }},
		{"option ack", func(o *Options) { o.Ack = "never" }},
		{"option duration", func(o *Options) { o.Duration = 0 }},
		{"option stall", func(o *Options) { o.Stall = 0 }},
		{"option topic", func(o *Options) { o.Topic = "a/#" }},
		{"option topic", func(o *Options) { o.Topic = "a//b" }},
		{"option destination", func(o *Options) { o.Destination = "heap" }},
		{"option destination", func(o *Options) { o.Destination = "/queue/{}\nreceipt:1" }},
		{"option header", func(o *Options) { o.SendHeaders = []string{"a"} }},
		{"option header", func(o *Options) { o.SubscribeHeaders = []string{"a:b\nc"} }},
		{"broker address", func(o *Options) { o.Publish = "http://127.0.0.1" }},
		{"broker address", func(o *Options) { o.Subscribe = "mqtt://" }},
		{"broker address", func(o *Options) { o.Publish = "stomp://a%0Ab@127.0.0.1" }},
	}
	for _, tt := range tests {
		o := DefaultOptions()
		tt.set(&o)
		if _, _, err := o.complete(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.want, err)
		}
	}
}

func TestEndpoints(t *testing.T) {
	tests := []struct {
		url  string
		want endpoint
	}{
		{"mqtt://h", endpoint{protocol: "mqtt", address: "h:1883", vhost: "/"}},
		{"stomp://h", endpoint{protocol: "stomp", address: "h:61613", vhost: "/"}},
		{"stomp://u:p@[::1]:9/factory", endpoint{protocol: "stomp", address: "[::1]:9", user: "u", password: "p", login: true, vhost: "factory"}},
	}
	for _, tt := range tests {
		if got, err := parseEndpoint(tt.url); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.url, got, err)
		}
	}
}

func TestOneSideNamesTheOther(t *testing.T) {
	o := DefaultOptions()
	o.Publish, o.Subscribe = "", "stomp://127.0.0.1"
	p, s, err := o.complete()
	if err != nil || p != s || p.protocol != "stomp" {
		t.Errorf("got %+v and %+v, %v", p, s, err)
	}
}

func TestNames(t *testing.T) {
	tests := []struct{ destination, mqtt, stomp string }{
		{"topic", "plant/x/7", "/topic/plant.x.7"},
		{"exchange", "plant/x/7", "/exchange/amq.topic/plant.x.7"},
		{"queue", "$queue/plant.x.7", "/queue/plant.x.7"},
		{"amq-queue", "$queue/plant.x.7", "/amq/queue/plant.x.7"},
		{"/exchange/e/{}", "plant/x/7", "/exchange/e/plant.x.7"},
	}
	for _, tt := range tests {
		o := Options{Topic: "plant/x", Destination: tt.destination}
		name := o.nameOf(7)
		if m, s := o.mqttTopic(name), o.stompDestination(name); m != tt.mqtt || s != tt.stomp {
			t.Errorf("%s: %s and %s", tt.destination, m, s)
		}
	}
}

func TestBatchFitsTheWindow(t *testing.T) {
	tests := []struct{ batch, window, frame, want int }{
		{0, 0, 80, 819},
		{0, 100, 80, 50},
		{0, 1, 80, 1},
		{0, 0, 1 << 20, 1},
		{1, 10_000, 80, 1},
		{7, 10_000, 80, 7},
	}
	for _, tt := range tests {
		o := Options{Batch: tt.batch, Window: tt.window}
		if got := o.batch(tt.frame); got != tt.want {
			t.Errorf("batch %d, window %d, frame %d: %d, want %d", tt.batch, tt.window, tt.frame, got, tt.want)
		}
	}
}
