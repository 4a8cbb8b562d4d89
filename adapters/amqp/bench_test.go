package amqp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/core/local"
)

// listen serves on the loopback.
func listen(t testing.TB, cfg Config) string {
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log)
	s := New(cfg, core.NewRealms(broker), log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		broker.Close()
	})
	return l.Addr().String()
}

// plainClient is a client on a socket.
type plainClient struct {
	conn net.Conn
	rest []byte
}

// dialPlain logs in with a channel 1 and sends lines of transcripts, each with
// an answer.
func dialPlain(t testing.TB, addr string, lines ...string) *plainClient {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &plainClient{conn: conn}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write([]byte(frame.ProtocolHeader)); err != nil {
		t.Fatal(err)
	}
	c.next(t)
	for _, line := range append([]string{
		`connection.start-ok mechanism=PLAIN response="\x00guest\x00guest" locale=en_US`,
		"+connection.tune-ok channel-max=2047 frame-max=131072 heartbeat=0", "connection.open virtual-host=/", "channel.open"}, lines...) {
		line, silent := strings.CutPrefix(line, "+")
		m, err := parseMessage(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(m.encode(131072)); err != nil {
			t.Fatal(err)
		}
		if !silent {
			c.next(t)
		}
	}
	return c
}

// next reads one thing.
func (c *plainClient) next(t testing.TB) string {
	buf := make([]byte, 64<<10)
	for {
		line, n, err := received(c.rest)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			c.rest = c.rest[n:]
			return line
		}
		n, err = c.conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		c.rest = append(c.rest, buf[:n]...)
	}
}

// published is the same basic.publish many times.
func published(count int, line string) []byte {
	m, err := parseMessage(line)
	if err != nil {
		panic(err)
	}
	return bytes.Repeat(m.encode(131072), count)
}

// delivered is how many bytes that many deliveries have, the first of which
// came already.
func delivered(count int, line string) int {
	m, err := parseMessage(line)
	if err != nil {
		panic(err)
	}
	return count * len(m.encode(131072))
}

// The way of a message from socket to socket costs one allocation.
func TestAllocations(t *testing.T) {
	addr := listen(t, DefaultConfig())
	sub := dialPlain(t, addr, "queue.declare queue=q", "basic.consume queue=q consumer-tag=t no-ack")
	pub := dialPlain(t, addr)
	const count = 200
	out := published(count, "basic.publish routing-key=q size=64")
	in := make([]byte, delivered(count, "basic.deliver consumer-tag=t routing-key=q size=64"))
	pass := func() {
		if _, err := pub.conn.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(sub.conn, in); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	if got := testing.AllocsPerRun(50, pass) / count; got > 1.2 {
		t.Errorf("%.2f allocations a message", got)
	}
}

// benchFlow sends blocks and reads what comes of them: by so many consumers,
// each with a queue bound to an exchange.
func benchFlow(b *testing.B, consumers, size int, more string) {
	addr := listen(b, DefaultConfig())
	done := make(chan error, consumers)
	for i := range consumers {
		q := fmt.Sprint("q", i)
		c := dialPlain(b, addr, "queue.declare queue="+q, "queue.bind queue="+q+" exchange=amq.fanout",
			"basic.consume queue="+q+" consumer-tag=t no-ack")
		want := int64(delivered(b.N, "basic.deliver exchange=amq.fanout consumer-tag=t routing-key=k size="+fmt.Sprint(size)+more))
		go func() {
			_, err := io.CopyN(io.Discard, c.conn, want)
			done <- err
		}()
	}
	p := dialPlain(b, addr)
	const block = 256
	out := published(block, "basic.publish exchange=amq.fanout routing-key=k size="+fmt.Sprint(size)+more)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= block {
		if _, err := p.conn.Write(out[:len(out)/block*min(left, block)]); err != nil {
			b.Fatal(err)
		}
	}
	for range consumers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPair(b *testing.B)   { benchFlow(b, 1, 64, "") }
func BenchmarkPair1K(b *testing.B) { benchFlow(b, 1, 1024, "") }
func BenchmarkFan50(b *testing.B)  { benchFlow(b, 50, 64, "") }
func BenchmarkProperties(b *testing.B) {
	benchFlow(b, 1, 64, " content-type=text/plain headers={a:1 b:two} correlation-id=7 message-id=m")
}

// BenchmarkConfirmAck is a publisher with confirms and a consumer that
// acknowledges one by one, in windows of 256.
func BenchmarkConfirmAck(b *testing.B) {
	addr := listen(b, DefaultConfig())
	sub := dialPlain(b, addr, "queue.declare queue=q", "basic.consume queue=q consumer-tag=t")
	pub := dialPlain(b, addr, "confirm.select")
	const block = 256
	out := published(block, "basic.publish routing-key=q size=64")
	in := make([]byte, delivered(block, "basic.deliver consumer-tag=t routing-key=q size=64"))
	go io.Copy(io.Discard, pub.conn)
	tag := 0
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= block {
		if _, err := pub.conn.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(sub.conn, in); err != nil {
			b.Fatal(err)
		}
		var acks []byte
		for range block {
			tag++
			acks = appendSettled(acks, 1, frame.BasicAck, uint64(tag), false)
		}
		if _, err := sub.conn.Write(acks); err != nil {
			b.Fatal(err)
		}
	}
}
