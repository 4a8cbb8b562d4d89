package adapters

import (
	"bytes"
	"log/slog"
	"net"
	"slices"
	"testing"
)

// FuzzFeedSplits: however a stream of frames is cut into reads, the protocol
// gets the same frames. A byte of sizes is a frame, a byte of cuts is how long
// a read is, over and over; an even one is followed by a pause.
func FuzzFeedSplits(f *testing.F) {
	f.Add([]byte{}, []byte{1}, false)
	f.Add([]byte{2, 9, 8, 7}, []byte{1}, false)
	f.Add([]byte{2, 255, 254, 255, 3, 4}, []byte{255, 0, 3}, true)
	f.Add([]byte{2, 255, 255}, []byte{13, 200}, true)
	f.Add([]byte{2, 77, 0, 77}, []byte{2}, false)
	f.Add([]byte{77, 1, 77}, []byte{3}, false)
	f.Add([]byte{4}, []byte{200}, true) // too large before log-in
	f.Fuzz(func(t *testing.T, sizes, cuts []byte, large bool) {
		if len(sizes) > 100 || len(cuts) > 100 {
			t.Skip()
		}
		stream := manyFrames(sizes, large)
		want, wantErr := splits(stream, nil, large)
		got, gotErr := splits(stream, cuts, large)
		if !slices.Equal(got, want) || gotErr != wantErr {
			t.Errorf("%d frames and %q, whole: %d and %q", len(got), gotErr, len(want), wantErr)
		}
	})
}

func manyFrames(sizes []byte, large bool) (stream []byte) {
	for i, n := range sizes {
		body := bytes.Repeat([]byte{'a' + byte(i)}, int(n))
		switch {
		case n < 3:
			body = []byte([]string{"bad", "done", "in"}[n])
		case large:
			body = bytes.Repeat(body, 257)
		}
		stream = append(stream, frame(string(body))...)
	}
	return stream
}

// splits feeds stream in reads of the lengths that cuts says, and returns the
// frames and what ended the connection. Without cuts all that fits is read at
// once.
func splits(stream, cuts []byte, large bool) (frames []string, why string) {
	cfg := testConfig()
	cfg.LoginBytes = 1024
	s := NewServer(cfg, "test", slog.New(slog.DiscardHandler), nil)
	_, conn := net.Pipe()
	c := &Conn{server: s, conn: conn}
	c.maxFrame = cfg.LoginBytes
	c.Outbox = newOutbox(conn, nil, s.bufs, cfg.OutboxBytes)
	c.Outbox.writing = true // nobody writes
	r := newRecorder(c)
	r.maxFrame = 1 << 17
	c.proto = r
	close(r.release)
	lent := s.bufs.getRead()
	buf, have := c.unpack(lent.b)
	for i := 0; len(stream) > 0 && c.err == nil; i++ {
		n := len(stream)
		if len(cuts) > 0 {
			n = 1 + int(cuts[i%len(cuts)])
			if large {
				n *= 300
			}
		}
		n = copy(buf[have:c.window(buf)], stream[:min(n, len(stream))])
		if n == 0 {
			return nil, "no room to read into"
		}
		stream = stream[n:]
		buf, have = c.feed(buf, have+n, lent.b)
		if len(cuts) > 0 && cuts[i%len(cuts)]%2 == 0 { // the socket was quiet
			c.pack(buf, have, lent.b)
			clear(lent.b)
			buf, have = c.unpack(lent.b)
		}
	}
	if c.err != nil {
		why = c.err.Error()
	}
	s.wheel.Stop(&c.alarm)
	return r.frames, why
}
