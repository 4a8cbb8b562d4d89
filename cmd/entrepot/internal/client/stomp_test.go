package client

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const connected = "CONNECTED\nversion:1.2\n\n\x00"

func TestSTOMPConnectRefused(t *testing.T) {
	for _, c := range []struct{ say, want string }{
		{"ERROR\nmessage:no entry\n\nbad user\x00", "connection refused: no entry: bad user"},
		{"ERROR\nmessage:no entry\n\nno entry\n\x00", "connection refused: no entry"},
		{"ERROR\n\n\x00", "ERROR without a reason"},
		{"\n\r\nERROR\nmessage:later\n\n\x00", "later"},
		{"RECEIPT\nreceipt-id:1\n\n\x00", "answers a CONNECT with RECEIPT"},
		{"HTTP/1.1 400 Bad Request\r\n", "not a STOMP broker?"},
		{"CONNECTED\nversion:1.2\nheart-beat:x\n\n\x00", `heart-beat header "x"`},
		{"", "the broker closed the connection"},
	} {
		address := script{steps: []step{{"\n\n\x00", c.say}}}.start(t)
		_, err := Dial(t.Context(), URL{Protocol: STOMP, Address: address}, options())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.say, err, c.want)
		}
	}
}

// STOMP 1.2, Value Encoding: CONNECT knows no escapes, so what would need one
// is refused, not sent.
func TestConnectTakesNoLineBreak(t *testing.T) {
	o := options()
	o.Host = "a\nlogin:root"
	address := script{hold: true}.start(t)
	if _, err := Dial(t.Context(), URL{Protocol: STOMP, Address: address}, o); err == nil || !strings.Contains(err.Error(), "line break") {
		t.Errorf("error %v", err)
	}
}

func TestLogin(t *testing.T) {
	address := script{hold: true, steps: []step{{"\nlogin:u\\:x\npasscode:p:q\n\n\x00", connected}, {"receipt:1\n\n\x00", "RECEIPT\nreceipt-id:1\n\n\x00"}}}.start(t)
	c, err := Dial(t.Context(), URL{Protocol: STOMP, Address: address, User: `u\:x`, Password: "p:q"}, options())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestSTOMPPublishRefused(t *testing.T) {
	address := script{steps: []step{{"\n\n\x00", connected}, {"payload\x00", "ERROR\nmessage:not allowed\n\n\x00"}}}.start(t)
	c := dial(t, STOMP, address, options())
	err := c.Publish(t.Context(), Message{Topic: "/topic/a", Payload: []byte("payload")})
	if err == nil || err.Error() != "the broker ended the connection: not allowed" {
		t.Errorf("error %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Each version names an acknowledged message in its own way, and only 1.1 and
// 1.2 escape.
func TestACKOfEachVersion(t *testing.T) {
	const message = "MESSAGE\ndestination:/topic/a\nsubscription:0\nmessage-id:m7\nack:a7\nx:b\\\\c\n\nhi\x00"
	for _, c := range []struct{ version, header, ack, mode string }{
		{"", `b\\c`, "ACK\nmessage-id:m7\n", "client"},
		{"1.1", `b\c`, "ACK\nmessage-id:m7\nsubscription:0\n", "client-individual"},
		{"1.2", `b\c`, "ACK\nid:a7\n", "client-individual"},
	} {
		said := "CONNECTED\nversion:" + c.version + "\n\n\x00"
		if c.version == "" {
			said = "CONNECTED\nsession:1\n\n\x00"
		}
		address := script{hold: true, steps: []step{
			{"\n\n\x00", said},
			{"ack:" + c.mode + "\nreceipt:1\n\n\x00", "RECEIPT\nreceipt-id:1\n\n\x00\n\n" + message},
			{c.ack + "\n\x00", ""},
			{"receipt:2\n\n\x00", "RECEIPT\nreceipt-id:2\n\n\x00"},
		}}.start(t)
		conn := dial(t, STOMP, address, options())
		err := conn.Subscribe(t.Context(), Interest{Topics: []string{"/topic/a"}}, func() {}, func(m Message) (bool, error) {
			if string(m.Payload) != "hi" || !contains(m.Headers, Header{"x", c.header}) && c.version != "" {
				t.Errorf("version %q: %+v", c.version, m)
			}
			return true, nil
		})
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Errorf("version %q: %v", c.version, err)
		}
	}
}

// STOMP 1.2, Heart-beating.
func TestHeartBeat(t *testing.T) {
	for _, c := range []struct {
		said        string
		beat, quiet time.Duration
	}{
		{"", 0, 0},
		{"0,0", 0, 0},
		{"1000,0", 0, keepAlive + limit},
		{"0,1000", keepAlive, 0},
		{"60000,90000", 90 * time.Second, time.Minute + limit},
	} {
		header := ""
		if c.said != "" {
			header = "heart-beat:" + c.said + "\n"
		}
		address := script{hold: true, steps: []step{
			{"heart-beat:30000,30000\n\n\x00", "CONNECTED\nversion:1.2\n" + header + "\n\x00"},
			{"receipt:1\n\n\x00", "RECEIPT\nreceipt-id:1\n\n\x00"},
		}}.start(t)
		conn := dial(t, STOMP, address, options()).(*stompConn)
		if conn.beat != c.beat || conn.quiet != c.quiet {
			t.Errorf("%s: beat %v, quiet %v", c.said, conn.beat, conn.quiet)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("%s: %v", c.said, err)
		}
	}
}

func TestPrefetch(t *testing.T) {
	o := options()
	o.Prefetch = 7
	address := script{hold: true, steps: []step{
		{"\n\n\x00", connected},
		{"prefetch-count:7\nreceipt:1\n\n\x00", "RECEIPT\nreceipt-id:1\n\n\x00MESSAGE\nack:1\n\n\x00"},
		{"receipt:2\n\n\x00", "RECEIPT\nreceipt-id:2\n\n\x00"},
	}}.start(t)
	conn := dial(t, STOMP, address, o)
	err := conn.Subscribe(t.Context(), Interest{Topics: []string{"/queue/a"}}, func() {}, func(Message) (bool, error) { return true, nil })
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Error(err)
	}
}
