package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	adapter "entrepot/adapters/amqp"
	"entrepot/core"
	"entrepot/core/local"
)

func amqpOf(set func(*Options)) *amqp {
	o := DefaultOptions()
	if set != nil {
		set(&o)
	}
	return newAmqp(endpoint{protocol: protocolAMQP, vhost: "/"}, &o)
}

func TestAmqpFrames(t *testing.T) {
	payload := "0000000000000000"
	tests := []struct {
		name   string
		set    func(*Options)
		method string
		header string
	}{
		{"transient", nil, "\x00\x00\x09amq.topic\x07bench.0\x00", "\x00\x00"},
		{"persistent to a queue", func(o *Options) { o.Destination, o.Persistent = "queue", true }, "\x00\x00\x00\x07bench.0\x00", "\x10\x00\x02"},
	}
	for _, tt := range tests {
		f := amqpOf(tt.set).frame("bench/0", 16)
		method := "\x00\x3c\x00\x28" + tt.method
		header := "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10" + tt.header
		want := ""
		for i, part := range []string{method, header, payload} {
			want += fmt.Sprintf("%c\x00\x01\x00\x00\x00%c%s\xce", i+1, len(part), part)
		}
		want = strings.ReplaceAll(want, "\u00ce", "\xce")
		if string(f.bytes) != want || f.payload != len(want)-17 || f.asks() {
			t.Errorf("%s: %q, want %q; payload at %d", tt.name, f.bytes, want, f.payload)
		}
	}
	if f := amqpOf(func(o *Options) { o.Receipts = true }).frame("bench/0", 16); !f.asks() {
		t.Error("confirms are not counted")
	}
}

// delivered is n deliveries as a broker writes them, and a heartbeat.
func delivered(head uint64, n, size int) []byte {
	var b []byte
	for i := range n {
		b = basicDeliver.call(b, 1, "tag", uint64(i+1), byte(0), "amq.topic", "bench.0")
		f := amqpOf(nil).frame("bench/0", size)
		at := bytes.Index(f.bytes, []byte{amqpEnd}) + 1
		row := bytes.Clone(f.bytes[at:])
		binary.BigEndian.PutUint64(row[f.payload-at:], head)
		binary.BigEndian.PutUint64(row[f.payload-at+8:], digits(uint64(i)))
		b = append(b, row...)
	}
	return append(b, amqpHeartbeat, 0, 0, 0, 0, 0, 0, amqpEnd)
}

func TestAmqpDeliveries(t *testing.T) {
	ack := func(tag, multiple byte) string {
		return "\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00" + string([]byte{tag, multiple}) + "\xce"
	}
	for _, tt := range []struct{ ack, want string }{
		{"auto", ""}, {"client", ack(3, 1)}, {"client-individual", ack(1, 0) + ack(2, 0) + ack(3, 0)},
	} {
		d := amqpOf(func(o *Options) { o.Ack = tt.ack })
		fresh := func() (scanner, *link, func() string) {
			s := newSubscriber(&link{}, 9, 0, 1)
			return d.deliveries(s), s.link, s.state
		}
		if tt.ack != "client" { // where one Ack stands for each read
			inPieces(t, delivered(payloadOf(0, 9), 3, 16), fresh)
		}
		for _, size := range []int{16, 1000, 2*amqpFrame + 5} { // of several bodies
			scan, l, state := fresh()
			whole := delivered(payloadOf(0, 9), 3, size)
			n, err := scan(whole)
			if got, want := state(), "delivered 3, late 0, twice 0, foreign 0, shown 3"; err != nil || n != len(whole) || got != want || string(l.out) != tt.want {
				t.Errorf("%s, %d bytes: %d of %d, %v, %s, answered %q", tt.ack, size, n, len(whole), err, got, l.out)
			}
		}
	}
}

func TestAmqpMalformed(t *testing.T) {
	deliver := string(basicDeliver.call(nil, 1, "t", uint64(1), byte(0), "", "k"))
	tests := []struct{ name, bytes, want string }{
		{"no end", "\x08\x00\x00\x00\x00\x00\x00\x00", "without its end"},
		{"too long", "\x01\x00\x00\xff\x00\x00\x00", "32 MiB"},
		{"short Deliver", string(basicDeliver.call(nil, 1, "t")), "malformed"},
		{"body in place of a header", deliver + "\x03\x00\x01\x00\x00\x00\x0d0123456789012\xce", "malformed"},
		{"short header", deliver + "\x02\x00\x01\x00\x00\x00\x02\x00\x3c\xce", "malformed"},
		{"too much body", deliver + "\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\xce\x03\x00\x01\x00\x00\x00\x0201\xce", "malformed"},
		{"channel closed", string(channelClose.call(nil, 1, uint16(404), "no queue", uint16(0), uint16(0))), "closed by the broker: 404 no queue"},
		{"connection closed", string(connectionClose.call(nil, 0, uint16(320), "bye", uint16(0), uint16(0))), "320 bye"},
		{"another method", string(channelOpenOk.call(nil, 1, []byte(nil))), "unexpected method 20.11"},
	}
	for _, tt := range tests {
		s := newSubscriber(&link{}, 9, 0, 1)
		if _, err := amqpOf(nil).deliveries(s)([]byte(tt.bytes)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Confirms come one by one, in any order, or for all up to one.
func TestAmqpAnswers(t *testing.T) {
	type confirm struct {
		tag      uint64
		multiple byte
	}
	for _, tt := range []struct {
		name string
		all  []confirm
		nack bool
		want uint64
	}{
		{"in order", []confirm{{1, 0}, {2, 0}, {3, 0}}, false, 3},
		{"all at once", []confirm{{5, 1}}, false, 5},
		{"out of order", []confirm{{3, 0}, {1, 0}, {5, 0}}, false, 3},
		{"a gap is closed", []confirm{{3, 0}, {2, 0}, {1, 0}, {4, 0}}, false, 4},
		{"all up to one, some known", []confirm{{2, 0}, {4, 0}, {3, 1}}, false, 4},
		{"again", []confirm{{2, 1}, {1, 0}, {2, 1}}, false, 2},
		{"refused", []confirm{{1, 0}, {2, 0}}, true, 2},
	} {
		var whole []byte
		for _, c := range tt.all {
			m := basicAck
			if tt.nack {
				m = basicNack
			}
			whole = m.call(whole, 1, c.tag, c.multiple)
		}
		inPieces(t, whole, func() (scanner, *link, func() string) {
			a := &answers{progress: newProgress()}
			return amqpOf(nil).answers(nil, a), &link{}, func() string { return fmt.Sprint(a.acked, a.refused, a.progress.got.Load()) }
		})
		a := &answers{progress: newProgress()}
		if _, err := amqpOf(nil).answers(nil, a)(whole); err != nil || a.acked != tt.want || (a.refused == tt.want) != tt.nack {
			t.Errorf("%s: %d confirmed, %d refused, %v", tt.name, a.acked, a.refused, err)
		}
	}
	if _, err := amqpOf(nil).answers(nil, &answers{progress: newProgress()})(basicAck.call(nil, 1, uint16(1))); err == nil {
		t.Error("a short Ack is taken")
	}
}

// A whole broker takes what the tool writes.
func TestAgainstEntrepotOverAMQP(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log)
	defer broker.Close()
	server := adapter.New(adapter.DefaultConfig(), core.NewRealms(broker), log)
	l := listen(t)
	if err := server.Serve(l); err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	for name, set := range map[string]func(*Options){
		"transient":  func(*Options) {},
		"cumulative": func(o *Options) { o.Destination, o.Ack = "queue", "client" },
		"confirms": func(o *Options) {
			o.Destination, o.Ack, o.Receipts, o.Persistent = "queue", "client-individual", true, true
		},
		"several bodies":    func(o *Options) { o.Size, o.Messages, o.Window = amqpFrame+1000, 300, 10 },
		"one a write":       func(o *Options) { o.Batch = 1 },
		"an existing queue": func(o *Options) { o.Destination = "amq-queue" },
	} {
		t.Run(name, func(t *testing.T) {
			o := against("amqp://" + l.Addr().String())
			set(&o)
			if o.Destination == "amq-queue" {
				if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "404") {
					t.Errorf("a queue that does not exist: %v", err)
				}
				return
			}
			o.Topic = strings.ReplaceAll(name, " ", "-")
			expectAll(t, o)
		})
	}
}
