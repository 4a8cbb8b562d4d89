package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/core"
	"entrepot/core/local"
)

// limit is how long a test waits for what must come.
const limit = 20 * time.Second

// brokers serves MQTT and STOMP on free ports.
func brokers(t *testing.T) (mqttAddress, stompAddress string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	realms := core.NewRealms(core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log))
	m, s := mqtt.New(mqtt.DefaultConfig(), realms, log), stomp.New(stomp.DefaultConfig(), realms, log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := errors.Join(m.Shutdown(ctx), s.Shutdown(ctx)); err != nil {
			t.Error(err)
		}
	})
	return serve(t, m.Serve), serve(t, s.Serve)
}

func serve(t *testing.T, f func(net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := f(l); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// script plays a broker that speaks by heart: it reads until it has seen a
// text, says the next thing, and so on; then it closes, or waits for the
// client to.
type script struct {
	steps []step
	hold  bool
}

type step struct{ until, say string }

// start plays the script for one connection and returns its address.
func (s script) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		in := bufio.NewReader(c)
		for _, step := range s.steps {
			heard := ""
			for !strings.HasSuffix(heard, step.until) {
				b, err := in.ReadByte()
				if err != nil {
					t.Errorf("waiting for %q, heard %q: %v", step.until, heard, err)
					return
				}
				heard += string([]byte{b})
			}
			io.WriteString(c, step.say)
		}
		if s.hold {
			io.Copy(io.Discard, in)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func options() Options {
	return Options{Version: "5", Host: "/", Timeout: limit, Note: func(string) {}}
}

func dial(t *testing.T, protocol, address string, o Options) Conn {
	t.Helper()
	c, err := Dial(t.Context(), URL{Protocol: protocol, Address: address}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// collect subscribes and sends what comes, until n messages came.
func collect(t *testing.T, c Conn, i Interest, n int) <-chan Message {
	t.Helper()
	granted, out := make(chan struct{}), make(chan Message, n)
	go func() {
		defer close(out)
		seen := 0
		err := c.Subscribe(t.Context(), i, func() { close(granted) }, func(m Message) (bool, error) {
			out <- m
			seen++
			return seen == n, nil
		})
		if err := errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-granted:
	case <-time.After(limit):
		t.Fatal("not granted")
	}
	return out
}

// all waits until the channel is closed.
func all(t *testing.T, in <-chan Message) []Message {
	t.Helper()
	var ms []Message
	end := time.After(limit)
	for {
		select {
		case m, ok := <-in:
			if !ok {
				return ms
			}
			ms = append(ms, m)
		case <-end:
			t.Fatalf("only %d messages", len(ms))
		}
	}
}
