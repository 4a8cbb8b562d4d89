package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
)

// tap is a client's connection that looks on: it notes how the broker closes
// channels and the connection, with the class and the method that it blames,
// which the client library does not show, and the longest frame. A test can
// send frames of its own through it, or let the client fall silent.
type tap struct {
	net.Conn

	mu      sync.Mutex
	pending []byte   // the beginning of a frame
	closes  []string // not yet looked at
	longest int      // of the frames that came, with their envelope
	silent  bool     // what the client writes is dropped
}

// Frame and method numbers of AMQP 0-9-1 that the tap knows.
const (
	methodFrame     = 1
	channelClose    = 20<<16 | 40
	connectionClose = 10<<16 | 50
)

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, b[:n]...)
	for len(t.pending) >= 7 {
		size := 7 + int(binary.BigEndian.Uint32(t.pending[3:])) + 1
		if len(t.pending) < size {
			break
		}
		t.look(t.pending[:size])
		t.pending = t.pending[size:]
	}
	return n, err
}

// look expects the lock.
func (t *tap) look(frame []byte) {
	t.longest = max(t.longest, len(frame))
	payload := frame[7 : len(frame)-1]
	if frame[0] != methodFrame || len(payload) < 4 {
		return
	}
	what := ""
	switch binary.BigEndian.Uint32(payload) {
	case channelClose:
		what = "channel"
	case connectionClose:
		what = "connection"
	default:
		return
	}
	code := binary.BigEndian.Uint16(payload[4:])
	blamed := payload[7+int(payload[6]):]
	t.closes = append(t.closes, fmt.Sprintf("%s closed with %d for %d.%d", what, code,
		binary.BigEndian.Uint16(blamed), binary.BigEndian.Uint16(blamed[2:])))
}

func (t *tap) Write(b []byte) (int, error) {
	t.mu.Lock()
	silent := t.silent
	t.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return t.Conn.Write(b)
}

// close takes the oldest close that nobody has looked at.
func (t *tap) close() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.closes) == 0 {
		return ""
	}
	first := t.closes[0]
	t.closes = t.closes[1:]
	return first
}

// mute lets the client fall silent.
func (t *tap) mute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.silent = true
}

func (t *tap) longestFrame() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.longest
}

// frame sends a frame of the test's own.
func (t *tap) frame(kind byte, channel uint16, payload ...byte) error {
	b := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	_, err := t.Conn.Write(append(append(b, payload...), 0xce))
	return err
}
