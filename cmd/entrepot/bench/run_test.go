package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// short is a run against r that ends soon.
func short(r *relay, publish, subscribe string) Options {
	o := DefaultOptions()
	o.Publish, o.Subscribe = r.url(publish), r.url(subscribe)
	o.Procs = 0
	o.Messages = 500
	o.Window = 100
	o.Stall = 200 * time.Millisecond
	return o
}

func TestTrafficOverEveryCrossing(t *testing.T) {
	for _, publish := range []string{"mqtt", "stomp"} {
		for _, subscribe := range []string{"mqtt", "stomp"} {
			for _, kind := range []string{Pair, FanOut} {
				t.Run(publish+" to "+subscribe+" "+kind, func(t *testing.T) {
					o := short(startRelay(t, nil), publish, subscribe)
					o.Kind = kind
					o.Latency = 7
					o.Receipts = true
					r, err := Run(t.Context(), o)
					if err != nil {
						t.Fatal(err)
					}
					want := uint64(4 * o.Messages)
					if kind == FanOut {
						want *= 4
					}
					if r.Sent != uint64(4*o.Messages) || r.Delivered != want || r.Lost+r.Twice+r.OutOfOrder+r.Foreign+r.Unacked+r.Stalls != 0 {
						t.Errorf("%+v", r)
					}
					if r.Rate <= 0 || r.LatencySamples == 0 || r.LatencyP99 < r.LatencyP50 {
						t.Errorf("%+v", r)
					}
				})
			}
		}
	}
}

// Each fault of a broker is counted as what it is.
func TestFaultsAreCounted(t *testing.T) {
	every := func(n, copies int) func(int) int {
		return func(i int) int {
			if i%n == n/2 {
				return copies
			}
			return 1
		}
	}
	tests := []struct {
		name                    string
		copies                  func(int) int
		lost, twice, outOfOrder uint64
	}{
		{"drops", every(50, 0), 10, 0, 0},
		{"doubles", every(50, 2), 0, 10, 0},
		{"swaps", every(50, -1), 0, 0, 10},
		{"drops the end", func(i int) int { return min(1, max(0, 400-i)) }, 100, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := short(startRelay(t, tt.copies), "mqtt", "mqtt")
			o.Publishers, o.Subscribers = 1, 1
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Lost != tt.lost || r.Twice != tt.twice || r.OutOfOrder != tt.outOfOrder {
				t.Errorf("lost %d, twice %d, out of order %d", r.Lost, r.Twice, r.OutOfOrder)
			}
			if r.Sent != 500 || r.Delivered != 500-tt.lost {
				t.Errorf("%d sent, %d delivered", r.Sent, r.Delivered)
			}
		})
	}
}

func TestDurationRun(t *testing.T) {
	o := short(startRelay(t, nil), "mqtt", "mqtt")
	o.Messages, o.Duration, o.Warmup = 0, 100*time.Millisecond, 20*time.Millisecond
	o.Batch = 1
	if runtime.GOOS == "linux" {
		o.PIDs = []int{os.Getpid()}
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Delivered != r.Sent || r.Lost != 0 || r.Seconds < 0.1 || r.Rate <= 0 || r.Batch != 1 {
		t.Errorf("%+v", r)
	}
	if len(o.PIDs) > 0 && r.PeakRSS == 0 {
		t.Errorf("no memory was read: %+v", r)
	}
}

func TestIdleRun(t *testing.T) {
	for _, protocol := range []string{"mqtt", "stomp"} {
		o := short(startRelay(t, nil), protocol, protocol)
		o.Kind, o.Connections, o.Settle, o.Sources = Idle, 150, time.Millisecond, 1
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Connections != 150 || r.Answered != 150 {
			t.Errorf("%s: %+v", protocol, r)
		}
	}
}

func TestBrokerHangsUp(t *testing.T) {
	var r *relay
	gone := make(chan struct{})
	r = startRelay(t, func(n int) int {
		if n == 1000 {
			go func() {
				r.hangUp()
				close(gone)
			}()
		}
		return 1
	})
	o := short(r, "mqtt", "stomp")
	o.Messages, o.Duration = 0, time.Minute
	result, err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "bench pair: ") {
		t.Errorf("got %v", err)
	}
	if result.Kind != Pair || result.Sent < 1000 {
		t.Errorf("what was seen until then: %+v", result)
	}
	<-gone
}

func TestRunEndsWithItsContext(t *testing.T) {
	o := short(startRelay(t, nil), "mqtt", "mqtt")
	o.Messages, o.Duration = 0, time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, o); err == nil {
		t.Error("no error")
	}
}

func TestNobodyListens(t *testing.T) {
	r := startRelay(t, nil)
	o := short(r, "mqtt", "mqtt")
	r.listener.Close()
	for _, kind := range []string{Pair, Idle} {
		o.Kind = kind
		if result, err := Run(t.Context(), o); err == nil || result.Kind != "" {
			t.Errorf("%s: %+v, %v", kind, result, err)
		}
	}
}

func TestCommand(t *testing.T) {
	r := startRelay(t, nil)
	run := func(args ...string) (string, error) {
		c := Command()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs(append(args, "--messages", "100", "--procs", "0"))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := run("pair", r.url("mqtt"), "--sub", r.url("stomp"), "--json")
	var result Result
	if err != nil || strings.Count(out, "\n") != 1 || json.Unmarshal([]byte(out), &result) != nil {
		t.Fatalf("%q, %v", out, err)
	}
	if result.Publish != "mqtt" || result.Subscribe != "stomp" || result.Delivered != 400 {
		t.Errorf("%+v", result)
	}
	out, err = run("fanout", r.url("mqtt"), "--publishers", "1", "--subscribers", "3")
	if err != nil || !strings.Contains(out, "100 sent, 300 delivered; 0 lost") {
		t.Errorf("%q, %v", out, err)
	}
	out, err = run("idle", r.url("stomp"), "--connections", "3", "--settle", "0s")
	if err != nil || !strings.Contains(out, "3 got a message") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err = run("square"); err == nil {
		t.Errorf("%q", out)
	}
}

func TestAddressOfTheCommand(t *testing.T) {
	const local, a, b = "mqtt://127.0.0.1:1883", "mqtt://a", "stomp://b"
	tests := []struct {
		args               []string
		pub, sub           string
		publish, subscribe string
	}{
		{nil, "", "", local, local},
		{[]string{a}, "", "", a, a},
		{[]string{a}, "", b, a, b},
		{nil, a, "", a, ""}, // complete makes both the same
		{nil, a, b, a, b},
	}
	for _, tt := range tests {
		o := Options{Publish: tt.pub, Subscribe: tt.sub}
		if o.address(tt.args); o.Publish != tt.publish || o.Subscribe != tt.subscribe {
			t.Errorf("%v --pub %q --sub %q: %q and %q", tt.args, tt.pub, tt.sub, o.Publish, o.Subscribe)
		}
	}
}
