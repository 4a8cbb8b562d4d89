package adapters

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"entrepot/core"
)

// carriers are the kinds of connection that a server meets.
var carriers = []struct {
	name string
	pair func(testing.TB) (client, server net.Conn)
}{
	{"pipe", func(testing.TB) (net.Conn, net.Conn) { return net.Pipe() }},
	{"tcp", func(t testing.TB) (net.Conn, net.Conn) { return dialled(t, "127.0.0.1:0") }},
	{"unix", func(t testing.TB) (net.Conn, net.Conn) {
		return dialled(t, "unix:"+filepath.Join(t.TempDir(), "s"))
	}},
	{"tls", tlsPair},
	{"websocket", webPair},
}

func dialled(t testing.TB, addr string) (client, server net.Conn) {
	t.Helper()
	l, err := listenAt(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// tlsPair is TLS over TCP, after the handshake.
func tlsPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	ca := newAuthority(t, "CA")
	host := ca.server("host", "localhost")
	c, s := dialled(t, "127.0.0.1:0")
	to, from := tls.Client(c, &tls.Config{RootCAs: ca.pool(), ServerName: "localhost"}),
		tls.Server(&wire{Conn: s, exact: true}, &tls.Config{Certificates: []tls.Certificate{host.Certificate}, DynamicRecordSizingDisabled: true})
	done := make(chan error, 1)
	go func() { done <- to.Handshake() }()
	if err := errors.Join(from.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return to, from
}

// narrow makes the system keep little of what is written to c.
func narrow(c net.Conn) {
	if ws, ok := c.(*websocketConn); ok {
		c = ws.Conn
	}
	if secret, ok := c.(*tls.Conn); ok {
		c = secret.NetConn()
	}
	if w, ok := c.(*wire); ok {
		c = w.Conn
	}
	if b, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		_ = b.SetWriteBuffer(4096)
	}
}

// frame is a body with its length before it, see cutFrame.
func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
}

// recorder is a protocol that keeps the frames that it was fed. The body of a
// frame may be a command:
//
//	in      logs in, answered by "in"
//	ask     is answered by "told"
//	tell    is answered by 62 bytes
//	flood   is answered by 64 KiB
//	done    good-bye
//	bad     an error, answered by "why"
//	hold    waits until release is closed
type recorder struct {
	conn     *Conn
	batch    core.Batch
	maxFrame int
	quiet    time.Duration
	release  chan struct{}

	mu       sync.Mutex
	onFrame  func(body string)
	frames   []string
	idles    int
	closed   int
	err      error
	shutdown bool
	ended    chan struct{}
}

var flood = string(make([]byte, 65535))

var errBad = errors.New("bad frame of a test")

func newRecorder(c *Conn) *recorder {
	return &recorder{conn: c, maxFrame: 1 << 16, release: make(chan struct{}), ended: make(chan struct{})}
}

func (r *recorder) Feed(b []byte) (int, error) {
	used := 0
	for {
		body, n := cutFrame(b[used:])
		if n == 0 {
			return used, nil
		}
		used += n
		if err := r.take(string(body)); err != nil {
			return used, err
		}
	}
}

func (r *recorder) take(body string) error {
	r.mu.Lock()
	r.frames = append(r.frames, body)
	onFrame := r.onFrame
	r.mu.Unlock()
	if onFrame != nil {
		onFrame(body)
	}
	switch body {
	case "in":
		r.conn.LoggedIn(r.maxFrame, r.quiet)
		r.answer("in")
	case "ask":
		r.answer("told")
	case "tell":
		r.answer(string(make([]byte, 60)))
	case "flood":
		r.answer(flood)
	case "hold":
		<-r.release
	case "done":
		return ErrDone
	case "bad":
		r.answer("why")
		return errBad
	}
	return nil
}

// on names what is called for each frame from now on.
func (r *recorder) on(f func(body string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onFrame = f
}

func (r *recorder) answer(body string) {
	o := r.conn.Outbox
	buf := binary.BigEndian.AppendUint16(o.BeginAnswer(), uint16(len(body)))
	o.End(&r.batch, append(buf, body...))
}

func (r *recorder) Idle() {
	r.batch.Flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idles++
}

func (r *recorder) Shutdown() {
	var b core.Batch
	o := r.conn.Outbox
	o.End(&b, append(o.BeginAnswer(), frame("stops")...))
	b.Flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shutdown = true
}

func (r *recorder) Closed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	r.err = err
	if r.closed == 1 {
		close(r.ended)
	}
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.frames...)
}

// bench of one server whose connections are recorders.
type fixture struct {
	*Server
	mu   sync.Mutex
	recs []*recorder
	set  func(*recorder)
}

func testConfig() Config {
	c := DefaultConfig()
	c.Linger = 500 * time.Millisecond
	return c
}

func newFixture(cfg Config, set func(*recorder)) *fixture {
	f := &fixture{set: set}
	f.Server = NewServer(cfg, "test", slog.New(slog.DiscardHandler), f.open)
	f.bufs.lent = new(atomic.Int64)
	return f
}

func (f *fixture) open(c *Conn) Protocol {
	r := newRecorder(c)
	if f.set != nil {
		f.set(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recs = append(f.recs, r)
	return r
}

// serve takes over the server's end of a pair and returns its recorder.
func (f *fixture) serve(c net.Conn) *recorder {
	f.ServeConn(c)
	return f.last()
}

// last is the protocol of the newest connection; nil: none was let in.
func (f *fixture) last() *recorder {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recs) == 0 {
		return nil
	}
	return f.recs[len(f.recs)-1]
}

// end shuts down and looks for what must not be left.
func (f *fixture) end(t testing.TB) {
	t.Helper()
	if err := f.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	f.bare(t)
	for _, r := range f.recs {
		if r.closed != 1 {
			t.Errorf("Closed was called %d times", r.closed)
		}
	}
}

// bare fails when a connection has left something behind.
func (f *fixture) bare(t testing.TB) {
	t.Helper()
	f.Server.mu.Lock()
	defer f.Server.mu.Unlock()
	f.wheel.mu.Lock()
	defer f.wheel.mu.Unlock()
	if n := f.bufs.lent.Load(); n != 0 {
		t.Errorf("%d buffers not given back", n)
	}
	if len(f.conns) > 0 || f.admitted > 0 || len(f.peers) > 0 {
		t.Errorf("left: %d connections, %d admitted, %d peers", len(f.conns), f.admitted, len(f.peers))
	}
	if f.wheel.count > 0 {
		t.Errorf("%d alarms left", f.wheel.count)
	}
}

// soon polls until ok, as long as a loaded machine may take.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// within waits for c.
func within(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("not in time: %s", what)
	}
}

func send(t testing.TB, c net.Conn, bodies ...string) {
	t.Helper()
	for _, b := range bodies {
		if _, err := c.Write(frame(b)); err != nil {
			t.Fatalf("send %.20q: %v", b, err)
		}
	}
}

func receive(t testing.TB, c net.Conn, want ...string) {
	t.Helper()
	for _, w := range want {
		got := make([]byte, len(frame(w)))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("receive %.20q: %v", w, err)
		}
		if string(got) != string(frame(w)) {
			t.Fatalf("got %.40q, want %.40q", got, frame(w))
		}
	}
}

// finished reads until the server ends the connection.
func finished(t testing.TB, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := io.Copy(io.Discard, c); err != nil || n > 0 {
		t.Errorf("%d more bytes, %v", n, err)
	}
}
