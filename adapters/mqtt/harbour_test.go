package mqtt

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
)

// harbour is a broker on a disk in memory, which can lose power and fail. It
// runs outside of a bubble, as the store does.
type harbour struct {
	testing.TB
	cfg    Config
	disk   *store.Disk
	store  *store.Store
	broker *core.Broker
	server *Server
	boats  map[string]*boat
	v      int // the version of clients in steps
	states chan error
}

func openHarbour(t testing.TB, cfg Config, d *store.Disk) *harbour {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open("data", store.Options{Disk: d, RetryEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.Open(log, st, "test")
	if err != nil {
		t.Fatal(err)
	}
	h := &harbour{TB: t, cfg: cfg, disk: d, store: st, boats: map[string]*boat{}, states: make(chan error, 64), v: 5}
	h.broker = core.NewBroker(core.DefaultConfig(), "test", e, testPolicy, log)
	if err := h.broker.Restore(st); err != nil {
		t.Fatal(err)
	}
	st.Watch(func(err error) { h.states <- err })
	h.server = New(cfg, core.NewRealms(h.broker), log)
	return h
}

// close stops the broker in order.
func (h *harbour) close() {
	h.Helper()
	if err := h.end(); err != nil {
		h.Error(err)
	}
}

// end is close, and tells how the store ended.
func (h *harbour) end() error {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		h.Error(err)
	}
	h.broker.Close()
	err := h.store.Close()
	for _, b := range h.boats {
		b.conn.Close()
	}
	return err
}

// restart is the same after a stop in order.
func (h *harbour) restart() *harbour {
	h.Helper()
	h.close()
	return h.again(h.disk)
}

// cut is the same after a power cut now, with a part of what was not synced.
func (h *harbour) cut(percent int, seed uint64) *harbour {
	h.Helper()
	d := h.disk.Crash(percent, seed)
	// The old disk may be failing; what becomes of it does not count any more.
	_ = h.end()
	return h.again(d)
}

func (h *harbour) again(d *store.Disk) *harbour {
	h.Helper()
	fresh := openHarbour(h.TB, h.cfg, d)
	fresh.v = h.v
	return fresh
}

// state waits until the store failed, or works again.
func (h *harbour) state(works bool) {
	h.Helper()
	select {
	case err := <-h.states:
		if works != (err == nil) {
			h.Fatalf("state %v", err)
		}
	case <-time.After(patience):
		h.Fatal("no change of state")
	}
}

// boat is a client: packets in words, as in transcripts.
type boat struct {
	h       *harbour
	conn    net.Conn
	version int
	lines   chan string // closed with the connection
}

func (h *harbour) dial(version int) *boat {
	near, far := net.Pipe()
	b := &boat{h: h, conn: near, version: version, lines: make(chan string, 10_000)}
	go b.listen(version)
	h.server.ServeConn(far)
	return b
}

func (b *boat) listen(version int) {
	defer close(b.lines)
	var got []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := b.conn.Read(buf)
		got = append(got, buf[:n]...)
		for {
			line, size := decode(got, version)
			if size == 0 {
				break
			}
			b.lines <- line
			got = got[size:]
		}
		if err != nil {
			return
		}
	}
}

// say is false when the connection is no more.
func (b *boat) say(line string) bool {
	_, err := b.conn.Write(encode(line, &b.version))
	return err == nil
}

// next is the next packet, "closed" at the end.
func (b *boat) next() string {
	b.h.Helper()
	select {
	case line, ok := <-b.lines:
		if !ok {
			return "closed"
		}
		return line
	case <-time.After(patience):
		b.h.Fatal("nothing came")
	}
	return ""
}

// steps are lines as in transcripts: "a> …", "a< …", "a! drop"; "restart" in
// order, a power "cut", "sync", "wait" for 1.1 seconds; the disk shall "fail" at
// the next sync, "failed", shall "heal" and works again.
func (h *harbour) steps(lines ...string) *harbour {
	h.Helper()
	for _, line := range lines {
		h = h.step(line)
	}
	return h
}

func (h *harbour) step(line string) *harbour {
	h.Helper()
	name, rest := line[:1], ""
	if len(line) > 3 {
		rest = line[3:]
	}
	switch line {
	case "restart":
		return h.restart()
	case "cut":
		return h.cut(0, 1)
	case "sync":
		if err := h.store.Sync(); err != nil {
			h.Fatal(err)
		}
		return h
	case "wait":
		<-time.After(1100 * time.Millisecond)
		return h
	case "fail":
		h.disk.Fail("sync", ".log", errBroken)
		return h
	case "failed":
		h.state(false)
		return h
	case "heal":
		h.disk.Heal()
		h.state(true)
		return h
	}
	b := h.boats[name]
	if b == nil {
		b = h.dial(h.v)
		h.boats[name] = b
	}
	switch line[1:3] {
	case "> ":
		b.say(rest)
	case "< ":
		h.want(b, line, rest)
	case "! ":
		b.conn.Close()
		delete(h.boats, name)
		h.awaitGone(name)
	default:
		h.Fatalf("step %q", line)
	}
	return h
}

func (h *harbour) want(b *boat, line, rest string) {
	h.Helper()
	if rest == "nothing" {
		b.say("pingreq")
		rest = "pingresp"
	}
	if got := b.next(); !same(got, rest) {
		h.Fatalf("%s\ngot: %s", line, got)
	}
}

// awaitGone waits until the broker knows that a client is gone.
func (h *harbour) awaitGone(string) {
	h.Helper()
	open := 0
	for _, b := range h.boats {
		if b.conn != nil {
			open++
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); int(h.broker.Stats().Protocols[protocolName].Connections) > open; <-tick.C {
		if time.Now().After(end) {
			h.Fatal("the connection is not given up")
		}
	}
}
