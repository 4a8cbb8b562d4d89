package adapters

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"entrepot/core"
)

// The relay is the least front-end there can be. A frame is a length of two
// bytes, big endian, and a body. The first frame logs in: "P" for a publisher,
// "S" and a number for a receiver. The first byte of a publisher's later frames
// says which receiver gets it, toAll that every one does.
const toAll = 255

type relay struct {
	cfg Config
	srv *Server

	mu        sync.Mutex
	receivers [256]*relayConn
	last      int
}

type relayConn struct {
	relay *relay
	conn  *Conn
	batch core.Batch
	in    bool
	seat  int
}

func newRelay(cfg Config) *relay {
	r := &relay{cfg: cfg}
	r.srv = NewServer(cfg, "relay", slog.New(slog.DiscardHandler), func(c *Conn) Protocol {
		return &relayConn{relay: r, conn: c, seat: -1}
	})
	return r
}

var errFrame = errors.New("bad frame")

func (p *relayConn) Feed(b []byte) (int, error) {
	used := 0
	for {
		body, n := cutFrame(b[used:])
		if n == 0 {
			return used, nil
		}
		used += n
		if err := p.take(body); err != nil {
			return used, err
		}
	}
}

func cutFrame(b []byte) (body []byte, n int) {
	if len(b) < 2 {
		return nil, 0
	}
	n = 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return nil, 0
	}
	return b[2:n], n
}

func (p *relayConn) take(body []byte) error {
	switch {
	case len(body) == 0:
		return errFrame
	case !p.in:
		return p.logIn(body)
	case body[0] == toAll:
		for _, r := range p.relay.receivers[:p.relay.last] {
			r.deliver(&p.batch, body)
		}
		return nil
	}
	r := p.relay.receivers[body[0]]
	if r == nil {
		p.answer()
		return nil
	}
	r.deliver(&p.batch, body)
	return nil
}

func (p *relayConn) logIn(body []byte) error {
	p.in = true
	p.conn.LoggedIn(70000, 0)
	if body[0] == 'S' {
		r := p.relay
		p.seat = int(body[1])
		r.mu.Lock()
		r.receivers[p.seat] = p
		r.last = max(r.last, p.seat+1)
		r.mu.Unlock()
	}
	p.answer()
	return nil
}

func (p *relayConn) answer() {
	deep(10)
	o := p.conn.Outbox
	o.End(&p.batch, append(o.BeginAnswer(), 0, 1, 'k'))
}

// deep uses about 4 KiB of stack, as handling a CONNECT or SUBSCRIBE does.
//
//go:noinline
func deep(n int) byte {
	var room [400]byte
	room[n] = byte(n)
	if n == 0 {
		return room[0]
	}
	return deep(n-1) + room[n/2]
}

func (p *relayConn) deliver(b *core.Batch, body []byte) {
	buf, ok := p.conn.Outbox.BeginDelivery()
	for !ok { // the bench has no queues: the publisher waits
		b.Flush()
		time.Sleep(50 * time.Microsecond)
		buf, ok = p.conn.Outbox.BeginDelivery()
	}
	buf = binary.BigEndian.AppendUint16(buf, uint16(len(body)))
	p.conn.Outbox.End(b, append(buf, body...))
}

func (p *relayConn) Idle()        { p.batch.Flush() }
func (p *relayConn) Shutdown()    {}
func (p *relayConn) Closed(error) {}

// plainRelay is what one writes in an afternoon: a goroutine a connection, bufio
// both ways, a lock around each writer, a flush when the input is used up.
type plainRelay struct {
	mu        sync.Mutex
	receivers [256]*plainConn
	last      int
}

type plainConn struct {
	mu    sync.Mutex
	w     *bufio.Writer
	dirty bool
}

func (r *plainRelay) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go r.conn(c)
	}
}

func (r *plainRelay) conn(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	me := &plainConn{w: bufio.NewWriterSize(c, 64<<10)}
	var dirty []*plainConn
	logged := false
	for {
		head, err := in.Peek(2)
		if err != nil {
			return
		}
		n := 2 + int(binary.BigEndian.Uint16(head))
		frame, err := in.Peek(n)
		if err != nil {
			return
		}
		switch body := frame[2:]; {
		case !logged:
			logged = true
			deep(10)
			if body[0] == 'S' {
				r.mu.Lock()
				r.receivers[body[1]] = me
				r.last = max(r.last, int(body[1])+1)
				r.mu.Unlock()
			}
			dirty = me.write(dirty, []byte{0, 1, 'k'})
		case body[0] == toAll:
			for _, to := range r.receivers[:r.last] {
				dirty = to.write(dirty, frame)
			}
		default:
			to := r.receivers[body[0]]
			if to == nil {
				deep(10)
				dirty = me.write(dirty, []byte{0, 1, 'k'})
				break
			}
			dirty = to.write(dirty, frame)
		}
		_, _ = in.Discard(n)
		if in.Buffered() == 0 {
			for _, d := range dirty {
				d.flush()
			}
			dirty = dirty[:0]
		}
	}
}

func (p *plainConn) write(dirty []*plainConn, b []byte) []*plainConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.w.Write(b)
	if !p.dirty {
		p.dirty = true
		dirty = append(dirty, p)
	}
	return dirty
}

func (p *plainConn) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = false
	_ = p.w.Flush()
}

// TestMain also is the relay's own process, whose processor time the benchmark
// wants to know.
func TestMain(m *testing.M) {
	if kind := os.Getenv("RELAY"); kind != "" {
		relayProcess(kind)
		return
	}
	os.Exit(m.Run())
}

// relayProcess prints its address, and at each line that it reads the processor
// time that it used so far.
func relayProcess(kind string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	if kind == "plain" {
		go new(plainRelay).serve(l)
	} else {
		r := newRelay(DefaultConfig())
		_ = r.srv.Serve(l)
		defer r.srv.Shutdown(context.Background())
	}
	if f := os.Getenv("RELAY_PROFILE"); f != "" {
		defer profile(f)()
	}
	fmt.Println(l.Addr())
	for in := bufio.NewReader(os.Stdin); ; {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		fmt.Println(processorTime().Nanoseconds())
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// relayChild is a relay in another process.
type relayChild struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr string
}

func startRelay(tb testing.TB, kind string) *relayChild {
	c := &relayChild{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), "RELAY="+kind)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = c.in.Close()
		_ = c.cmd.Wait()
	})
	c.out = bufio.NewReader(out)
	if c.addr, err = c.out.ReadString('\n'); err != nil {
		tb.Fatal(err)
	}
	c.addr = strings.TrimSpace(c.addr)
	return c
}

func (c *relayChild) used(tb testing.TB) time.Duration {
	var d time.Duration
	_, err := fmt.Fprintln(c.in)
	if err == nil {
		_, err = fmt.Fscanln(c.out, &d)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func relayDial(tb testing.TB, addr string, login string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write(append([]byte{0, byte(len(login))}, login...)); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
		tb.Fatal(err)
	}
	return c
}
