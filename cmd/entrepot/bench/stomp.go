package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	errStompEnd    = errors.New("stomp: no NUL at the end of a frame")
	errStompLength = errors.New("stomp: content-length is not a number in range")
)

// stompFrame is what the tool needs of one frame. Its parts lie in the read
// buffer; header values are as they came, escapes and all.
type stompFrame struct {
	command      []byte
	ack          []byte
	messageID    []byte
	subscription []byte
	message      []byte
	version      []byte
	body         []byte
}

// parseStomp reads the frame at the start of b and returns its length, 0 when
// b does not hold all of it. Line ends before it belong to it. Of a header that
// is repeated the first counts. The frame is a value so that it stays on the
// stack.
func parseStomp(b []byte) (f stompFrame, size int, err error) {
	at := 0
	for at < len(b) && (b[at] == '\n' || b[at] == '\r') {
		at++
	}
	f.command, at = stompLine(b, at)
	length := -1
	for at >= 0 {
		var line []byte
		if line, at = stompLine(b, at); at < 0 {
			break
		}
		if len(line) == 0 {
			size, err = f.end(b, at, length)
			return f, size, err
		}
		switch line[0] {
		case 'c':
			const name = "content-length:"
			if length < 0 && len(line) >= len(name) && string(line[:len(name)]) == name {
				if length, err = decimal(line[len(name):]); err != nil {
					return f, 0, err
				}
			}
		case 'a', 'm', 's', 'v':
			f.header(line)
		}
	}
	return f, 0, nil
}

// end finds the body that begins at the given place, and the frame's length.
func (f *stompFrame) end(b []byte, at, length int) (int, error) {
	if length < 0 {
		length = bytes.IndexByte(b[at:], 0)
		if length < 0 {
			return 0, nil
		}
	}
	if at+length >= len(b) {
		return 0, nil
	}
	if b[at+length] != 0 {
		return 0, errStompEnd
	}
	f.body = b[at : at+length]
	return at + length + 1, nil
}

// stompLine returns the line at the given place without its end, and where the
// next one begins: -1 when the line is not complete.
func stompLine(b []byte, at int) ([]byte, int) {
	n := bytes.IndexByte(b[at:], '\n')
	if n < 0 {
		return nil, -1
	}
	next := at + n + 1
	if n > 0 && b[at+n-1] == '\r' {
		n--
	}
	return b[at : at+n], next
}

func decimal(b []byte) (int, error) {
	if len(b) == 0 || len(b) > 9 {
		return 0, errStompLength
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, errStompLength
		}
		n = n*10 + int(c-'0')
	}
	if n > largestFrame {
		return 0, errStompLength
	}
	return n, nil
}

// header keeps the value of a header that the tool needs.
func (f *stompFrame) header(line []byte) {
	at := bytes.IndexByte(line, ':')
	if at < 0 {
		return
	}
	var to *[]byte
	switch string(line[:at]) {
	case "ack":
		to = &f.ack
	case "message-id":
		to = &f.messageID
	case "message":
		to = &f.message
	case "subscription":
		to = &f.subscription
	case "version":
		to = &f.version
	default:
		return
	}
	if *to == nil {
		*to = line[at+1:]
	}
}

// failed is the error that an ERROR frame stands for, or one that was not
// expected.
func (f *stompFrame) failed() error {
	if string(f.command) != "ERROR" {
		return fmt.Errorf("stomp: unexpected frame %.20q", f.command)
	}
	text := string(f.message)
	if text == "" {
		text = strings.TrimSpace(string(f.body[:min(len(f.body), 200)]))
	}
	return fmt.Errorf("stomp: ERROR from the broker: %s", text)
}

var stompVersions = []string{"1.0", "1.1", "1.2"}

// stomp speaks the highest version that both sides know.
type stomp struct {
	endpoint
	o    *Options
	mute atomic.Bool // the broker gives no receipt for SUBSCRIBE
}

// confirmTime is how long a broker has for its first receipt of a SUBSCRIBE.
const confirmTime = time.Second

func newStomp(e endpoint, o *Options) *stomp { return &stomp{endpoint: e, o: o} }

// await returns the next frame.
func (s *stomp) await(l *link) (stompFrame, error) {
	whole, err := l.next(func(b []byte) (int, error) {
		_, size, err := parseStomp(b)
		return size, err
	})
	if err != nil {
		return stompFrame{}, fmt.Errorf("stomp: %w", err)
	}
	f, _, err := parseStomp(whole)
	return f, err
}

func (s *stomp) greet(l *link, id string) error {
	// No escapes in CONNECT; client-id is ActiveMQ's, others pass it over.
	offer := stompVersions[:1+slices.Index(stompVersions, s.o.STOMPVersion)]
	text := "CONNECT\naccept-version:" + strings.Join(offer, ",") + "\nhost:" + s.vhost + "\nheart-beat:0,0\nclient-id:" + id + "\n"
	if s.login {
		text += "login:" + s.user + "\npasscode:" + s.password + "\n"
	}
	if _, err := l.conn.Write([]byte(text + "\n\x00")); err != nil {
		return closedAs(err)
	}
	f, err := s.await(l)
	if err != nil {
		return err
	}
	if string(f.command) != "CONNECTED" {
		return f.failed()
	}
	l.version = string(f.version)
	l.farewell = []byte("DISCONNECT\n\n\x00")
	return nil
}

func (s *stomp) subscribe(t *subscriber, name string) error {
	text := "SUBSCRIBE\nid:0\ndestination:" + s.o.stompDestination(name) + "\nack:" + s.o.Ack +
		"\nreceipt:subscribed\n" + headerLines(s.o.SubscribeHeaders) + "\n\x00"
	if _, err := t.link.conn.Write([]byte(text)); err != nil {
		return closedAs(err)
	}
	if !s.mute.Load() {
		err := s.confirmed(t, confirmTime)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		s.mute.Store(true)
	}
	// This broker gives no receipt for a SUBSCRIBE. It gives one for what comes
	// after, and it works in order.
	if _, err := t.link.conn.Write([]byte("BEGIN\ntransaction:0\nreceipt:begun\n\n\x00ABORT\ntransaction:0\n\n\x00")); err != nil {
		return closedAs(err)
	}
	return s.confirmed(t, dialTime)
}

// confirmed waits for a receipt.
func (s *stomp) confirmed(t *subscriber, span time.Duration) error {
	t.link.conn.SetReadDeadline(time.Now().Add(span))
	for {
		f, err := s.await(t.link)
		if err != nil {
			return err
		}
		switch string(f.command) {
		case "RECEIPT":
			return nil
		case "MESSAGE":
			t.take(f.body)
			if s.o.Ack != "auto" {
				t.link.out = f.acknowledge(t.link.out, t.link.version)
			}
			if err := t.link.flush(); err != nil {
				return err
			}
		default:
			return f.failed()
		}
	}
}

func headerLines(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return strings.Join(headers, "\n") + "\n"
}

func (s *stomp) frame(name string, size int) frame {
	text := "SEND\ndestination:" + s.o.stompDestination(name) + "\ncontent-length:" + strconv.Itoa(size) + "\n"
	if s.o.Persistent {
		text += "persistent:true\n"
	}
	text += headerLines(s.o.SendHeaders)
	var f frame
	if s.o.Receipts {
		text += "receipt:"
		f.receipt = len(text)
		text += "00000000\n"
	}
	text += "\n"
	f.payload = len(text)
	f.bytes = append(fill([]byte(text), size), 0)
	return f
}

// deliveries counts MESSAGE frames into t and acknowledges them. In the
// client mode, which is cumulative, the last of each read stands for all.
func (s *stomp) deliveries(t *subscriber) scanner {
	each, cumulative := s.o.Ack == "client-individual", s.o.Ack == "client"
	return func(b []byte) (int, error) {
		var last stompFrame
		at := 0
		for {
			f, size, err := parseStomp(b[at:])
			if err == nil && size > 0 {
				err = f.deliver(t)
			}
			if err != nil || size == 0 {
				if last.command != nil {
					t.link.out = last.acknowledge(t.link.out, t.link.version)
				}
				t.settle()
				return at, err
			}
			if each {
				t.link.out = f.acknowledge(t.link.out, t.link.version)
			} else if cumulative {
				last = f
			}
			at += size
		}
	}
}

func (f *stompFrame) deliver(t *subscriber) error {
	if string(f.command) != "MESSAGE" {
		return f.failed()
	}
	t.take(f.body)
	return nil
}

// acknowledge appends the ACK of a MESSAGE in the way of the version. A broker
// that says 1.2 but names no ack id is answered as one of 1.1.
func (f *stompFrame) acknowledge(to []byte, version string) []byte {
	if version == "1.2" && f.ack != nil {
		to = append(append(to, "ACK\nid:"...), f.ack...)
		return append(to, "\n\n\x00"...)
	}
	to = append(append(to, "ACK\nmessage-id:"...), f.messageID...)
	if version != "1.0" && version != "" {
		to = append(append(to, "\nsubscription:"...), f.subscription...)
	}
	return append(to, "\n\n\x00"...)
}

// answers counts receipts.
func (s *stomp) answers(l *link, a *answers) scanner {
	return func(b []byte) (int, error) {
		at := 0
		for {
			f, size, err := parseStomp(b[at:])
			if err == nil && size > 0 && string(f.command) != "RECEIPT" {
				err = f.failed()
			}
			if err != nil || size == 0 {
				a.settle()
				return at, err
			}
			a.acked++
			at += size
		}
	}
}
