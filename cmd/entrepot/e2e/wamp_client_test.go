package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
)

// Types of WAMP messages.
const (
	wampHello        = 1
	wampWelcome      = 2
	wampAbort        = 3
	wampChallenge    = 4
	wampAuthenticate = 5
	wampGoodbye      = 6
	wampError        = 8
	wampPublish      = 16
	wampPublished    = 17
	wampSubscribe    = 32
	wampSubscribed   = 33
	wampUnsubscribe  = 34
	wampUnsubscribed = 35
	wampEventType    = 36
	wampCall         = 48
	wampCancel       = 49
	wampResult       = 50
	wampRegister     = 64
	wampRegistered   = 65
	wampUnregister   = 66
	wampUnregistered = 67
	wampInvocation   = 68
	wampInterrupt    = 69
	wampYield        = 70
)

// wampEvent is a message of the broker's.
type wampEvent struct {
	kind    int
	text    string // as scripts show it
	carries bool   // EVENT or INVOCATION
	id      uint64 // of an INVOCATION
}

// wampClient is a WAMP client in JSON that does what it is told.
type wampClient struct {
	*inbox
	conn net.Conn

	last   uint64            // request id
	asked  map[uint64]string // URIs by request
	calls  map[string]uint64 // requests by URI
	subs   map[uint64]string // URIs by subscription
	regs   map[uint64]string // URIs by registration
	subsBy map[string]uint64
	regsBy map[string]uint64
}

func newWAMPClient() *wampClient {
	return &wampClient{inbox: &inbox{}, asked: map[uint64]string{}, calls: map[string]uint64{}, subs: map[uint64]string{},
		regs: map[uint64]string{}, subsBy: map[string]uint64{}, regsBy: map[string]uint64{}}
}

// send writes a message in a frame of its own, masked with zeroes.
func (c *wampClient) send(message ...any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	head := []byte{0x81, 0x80 | 126, 0, 0, 0, 0, 0, 0}
	if len(b) <= 125 {
		head = []byte{0x81, 0x80 | byte(len(b)), 0, 0, 0, 0}
	} else {
		binary.BigEndian.PutUint16(head[2:], uint16(len(b)))
	}
	_, err = c.conn.Write(append(head, b...))
	return err
}

// request begins a request for a URI.
func (c *wampClient) request(uri string) uint64 {
	c.last++
	c.asked[c.last] = uri
	return c.last
}

// listen reads until the connection ends. The script waits for all goroutines
// before it does more, so that the maps need no lock.
func (c *wampClient) listen(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		op, b, err := readWSFrame(r)
		if err != nil {
			c.add(event{end: ending(err)})
			return
		}
		if op != 1 {
			continue
		}
		var m []any
		if err := json.Unmarshal(b, &m); err != nil {
			c.add(event{end: "broken: " + err.Error()})
			return
		}
		c.add(event{wamp: c.show(m)})
	}
}

func readWSFrame(r *bufio.Reader) (op byte, data []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(head[1])
	if n == 126 {
		var long [2]byte
		if _, err := io.ReadFull(r, long[:]); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint16(long[:]))
	}
	data = make([]byte, n)
	_, err = io.ReadFull(r, data)
	return head[0] & 15, data, err
}

// show is a message as scripts have it: ids as URIs.
func (c *wampClient) show(m []any) *wampEvent {
	e := &wampEvent{kind: int(m[0].(float64))}
	id := func(at int) uint64 { return uint64(m[at].(float64)) }
	switch e.kind {
	case wampWelcome:
		e.text = "WELCOME"
	case wampChallenge:
		e.text = "CHALLENGE" + rest(m[1:])
	case wampAbort, wampGoodbye:
		e.text = fmt.Sprintf("%s %v", map[int]string{wampAbort: "ABORT", wampGoodbye: "GOODBYE"}[e.kind], m[2])
	case wampError:
		e.text = fmt.Sprintf("ERROR %s %v%s", shown(c.asked[id(2)]), m[4], rest(m[5:]))
	case wampSubscribed, wampRegistered:
		uri := c.asked[id(1)]
		e.text = "SUBSCRIBED " + uri
		if e.kind == wampSubscribed {
			c.subs[id(2)], c.subsBy[uri] = uri, id(2)
		} else {
			c.regs[id(2)], c.regsBy[uri] = uri, id(2)
			e.text = "REGISTERED " + uri
		}
	case wampPublished, wampUnsubscribed, wampUnregistered:
		e.text = map[int]string{wampPublished: "PUBLISHED ", wampUnsubscribed: "UNSUBSCRIBED ", wampUnregistered: "UNREGISTERED "}[e.kind] + c.asked[id(1)]
	case wampEventType:
		e.text, e.carries = "EVENT "+c.subs[id(1)]+rest(m[3:]), true
	case wampInvocation:
		e.text, e.carries, e.id = "INVOCATION "+c.regs[id(2)]+rest(m[3:]), true, id(1)
	case wampResult:
		e.text = "RESULT " + c.asked[id(1)] + rest(m[2:])
	case wampInterrupt:
		e.text = "INTERRUPT" + rest(m[2:])
	default:
		e.text = rest(m)
	}
	return e
}

// rest is what follows, in JSON; empty dicts in front are left out, and ids of
// sessions are "*".
func rest(m []any) (text string) {
	for i, v := range m {
		d, ok := v.(map[string]any)
		if ok && i == 0 && len(d) == 0 {
			continue
		}
		for _, name := range []string{"publisher", "caller"} {
			if _, id := d[name].(float64); id {
				d[name] = "*"
			}
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		text += " " + string(b)
	}
	return text
}
