package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

func stompOf(set func(*Options)) *stomp {
	o := DefaultOptions()
	if set != nil {
		set(&o)
	}
	return newStomp(endpoint{protocol: protocolSTOMP}, &o)
}

func TestStompFrames(t *testing.T) {
	payload := "0000000000000000"
	tests := []struct {
		name string
		set  func(*Options)
		want string
	}{
		{"plain", nil, "SEND\ndestination:/topic/bench.0\ncontent-length:16\n\n" + payload + "\x00"},
		{"durable with receipt", func(o *Options) {
			o.Destination, o.Persistent, o.Receipts = "queue", true, true
			o.SendHeaders = []string{"a:b", "c:d"}
		}, "SEND\ndestination:/queue/bench.0\ncontent-length:16\npersistent:true\na:b\nc:d\nreceipt:00000000\n\n" + payload + "\x00"},
	}
	for _, tt := range tests {
		f := stompOf(tt.set).frame("bench/0", 16)
		if string(f.bytes) != tt.want || f.payload != len(tt.want)-17 {
			t.Errorf("%s: %q, payload at %d", tt.name, f.bytes, f.payload)
		}
		if f.receipt > 0 {
			b := newBlock(f, 2, 0, 0)
			row := b.number(0xABC, 2)[b.stride:]
			if got := string(row[f.receipt : f.receipt+8]); got != "00000abd" {
				t.Errorf("%s: receipt %q", tt.name, got)
			}
		}
	}
}

func TestStompParse(t *testing.T) {
	tests := []struct{ name, frame, want string }{
		{"no headers", "RECEIPT\n\n\x00", "RECEIPT|||||"},
		{"headers", "MESSAGE\nack:1\\c2\nmessage-id:3\nsubscription:0\n\nbody\x00", "MESSAGE|1\\c2|3|0||body"},
		{"content-length and NUL in the body", "MESSAGE\ncontent-length:3\n\na\x00b\x00", "MESSAGE|||||a\x00b"},
		{"content-length 0", "MESSAGE\ncontent-length:0\n\n\x00", "MESSAGE|||||"},
		{"carriage returns", "MESSAGE\r\nack:x\r\ncontent-length:1\r\n\r\nb\x00", "MESSAGE|x||||b"},
		{"line ends before", "\n\r\n\nERROR\nmessage:no\n\nmore\x00", "ERROR||||no|more"},
		{"the first of a repeated header", "MESSAGE\nack:1\nack:2\ncontent-length:1\ncontent-length:9\n\nb\x00", "MESSAGE|1||||b"},
		{"names that only begin alike", "MESSAGE\nacknowledge:1\nmessage-identity:2\ncontent-type:text/plain\n\n\x00", "MESSAGE|||||"},
	}
	for _, tt := range tests {
		f, n, err := parseStomp([]byte(tt.frame + "\nREST"))
		got := fmt.Sprintf("%s|%s|%s|%s|%s|%s", f.command, f.ack, f.messageID, f.subscription, f.message, f.body)
		if err != nil || n != len(tt.frame) || got != tt.want {
			t.Errorf("%s: %d of %d bytes, %q, %v", tt.name, n, len(tt.frame), got, err)
		}
		for cut := range len(tt.frame) {
			if _, n, err := parseStomp([]byte(tt.frame[:cut])); n != 0 || err != nil {
				t.Errorf("%s: cut at %d: %d, %v", tt.name, cut, n, err)
			}
		}
	}
}

func TestStompMalformed(t *testing.T) {
	tests := []struct {
		name, frame string
		want        error
	}{
		{"content-length too short", "MESSAGE\ncontent-length:1\n\nab\x00", errStompEnd},
		{"content-length negative", "MESSAGE\ncontent-length:-1\n\nab\x00", errStompLength},
		{"content-length empty", "MESSAGE\ncontent-length:\n\nab\x00", errStompLength},
		{"content-length huge", "MESSAGE\ncontent-length:999999999\n\nab\x00", errStompLength},
		{"content-length beyond any number", "MESSAGE\ncontent-length:99999999999999999999\n\nab\x00", errStompLength},
	}
	for _, tt := range tests {
		if _, _, err := parseStomp([]byte(tt.frame)); err != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// messages is three deliveries as a broker writes them.
func messages(head uint64) []byte {
	var b bytes.Buffer
	for i := range uint64(3) {
		fmt.Fprintf(&b, "MESSAGE\nsubscription:0\nmessage-id:m%d\nack:a%d\ncontent-length:16\n\n", i, i)
		b.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, head), digits(i)))
		b.WriteString("\x00\n")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func TestStompDeliveries(t *testing.T) {
	tests := []struct{ ack, want string }{
		{"auto", ""},
		{"client", "ACK\nid:a2\n\n\x00"},
		{"client-individual", "ACK\nid:a0\n\n\x00ACK\nid:a1\n\n\x00ACK\nid:a2\n\n\x00"},
	}
	for _, tt := range tests {
		d := stompOf(func(o *Options) { o.Ack = tt.ack })
		fresh := func() (scanner, *link, func() string) {
			s := newSubscriber(&link{version: "1.2"}, 9, 0, 1)
			return d.deliveries(s), s.link, s.state
		}
		if tt.ack != "client" { // where one ACK stands for each read
			inPieces(t, messages(payloadOf(0, 9)), fresh)
		}
		scan, l, state := fresh()
		if _, err := scan(messages(payloadOf(0, 9))); err != nil {
			t.Fatal(err)
		}
		if got, want := state(), "delivered 3, late 0, twice 0, foreign 0, shown 3"; got != want || string(l.out) != tt.want {
			t.Errorf("%s: %s, answered %q", tt.ack, got, l.out)
		}
	}
}

func TestStompAcknowledgeByVersion(t *testing.T) {
	tests := []struct{ version, ack, want string }{
		{"1.2", "x", "ACK\nid:x\n\n\x00"},
		{"1.2", "", "ACK\nmessage-id:m\nsubscription:0\n\n\x00"},
		{"1.1", "", "ACK\nmessage-id:m\nsubscription:0\n\n\x00"},
		{"1.0", "", "ACK\nmessage-id:m\n\n\x00"},
		{"", "", "ACK\nmessage-id:m\n\n\x00"},
	}
	for _, tt := range tests {
		f := stompFrame{messageID: []byte("m"), subscription: []byte("0")}
		if tt.ack != "" {
			f.ack = []byte(tt.ack)
		}
		if got := string(f.acknowledge(nil, tt.version)); got != tt.want {
			t.Errorf("%s: %q", tt.version, got)
		}
	}
}

func TestStompErrorsEndARun(t *testing.T) {
	tests := []struct{ frame, want string }{
		{"ERROR\nmessage:no such queue\n\nlong text\x00", "no such queue"},
		{"ERROR\n\nonly a body\x00", "only a body"},
		{"CONNECTED\n\n\x00", `unexpected frame "CONNECTED"`},
	}
	for _, tt := range tests {
		s := newSubscriber(&link{}, 9, 0, 1)
		_, err := stompOf(nil).deliveries(s)([]byte(tt.frame))
		_, err2 := stompOf(nil).answers(&link{}, &answers{progress: newProgress()})([]byte(tt.frame))
		for _, err := range []error{err, err2} {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q: %v", tt.frame, err)
			}
		}
	}
}

func TestStompAnswers(t *testing.T) {
	inPieces(t, []byte("RECEIPT\nreceipt-id:00000000\n\n\x00\nRECEIPT\nreceipt-id:00000001\n\n\x00"), func() (scanner, *link, func() string) {
		l, a := &link{}, &answers{progress: newProgress()}
		return stompOf(nil).answers(l, a), l, func() string { return fmt.Sprint(a.acked, a.progress.seen.Load()) }
	})
}
