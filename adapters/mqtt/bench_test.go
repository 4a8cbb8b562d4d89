package mqtt

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// block is the same PUBLISH many times.
func block(count, version, qos int, payload string) []byte {
	line := fmt.Sprintf("publish topic=bench/topic qos=%d payload=%s", qos, payload)
	var b []byte
	for i := range count {
		b = append(b, encode(line+map[bool]string{true: fmt.Sprintf(" id=%d", i+1)}[qos > 0], &version)...)
	}
	return b
}

// pass sends a block and reads what comes of it, on buffers that are there.
func pass(t testing.TB, pub, sub *plainClient, out, in []byte) {
	if _, err := pub.conn.Write(out); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(sub.conn, in); err != nil {
		t.Fatal(err)
	}
}

// The way of a QoS 0 message from socket to socket costs one allocation.
func TestAllocations(t *testing.T) {
	for _, version := range []int{4, 5} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			addr, _ := listen(t, testConfig())
			sub := dialPlain(t, addr, fmt.Sprintf("connect id=s clean v=%d", version), "subscribe id=1 f=bench/topic")
			pub := dialPlain(t, addr, fmt.Sprintf("connect id=p clean v=%d", version))
			const count = 200
			out := block(count, version, 0, "rep:64")
			in := make([]byte, len(out))
			pass(t, pub, sub, out, in)
			got := testing.AllocsPerRun(50, func() { pass(t, pub, sub, out, in) }) / count
			if got > 1.2 {
				t.Errorf("%.2f allocations a message", got)
			}
			if !bytes.Equal(in, out) {
				t.Error("the subscriber got something else")
			}
		})
	}
}

func BenchmarkQoS0(b *testing.B) {
	for _, size := range []int{0, 64, 1000, 10000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			addr, _ := listen(b, testConfig())
			sub := dialPlain(b, addr, "connect id=s clean v=4", "subscribe id=1 f=bench/topic")
			pub := dialPlain(b, addr, "connect id=p clean v=4")
			out := block(100, 4, 0, fmt.Sprint("rep:", size))
			in := make([]byte, len(out))
			b.SetBytes(int64(len(out)))
			b.ReportAllocs()
			for b.Loop() {
				pass(b, pub, sub, out, in)
			}
		})
	}
}

// confirmed is one round of messages at QoS 1 or 2 and all that is said about
// them, from socket to socket.
type confirmed struct {
	pub, sub     *plainClient
	qos, count   int
	out, in      []byte
	answers      []byte
	say, release []byte
}

func newConfirmed(t testing.TB, qos int, connect string) *confirmed {
	addr, _ := listen(t, testConfig())
	r := &confirmed{qos: qos, count: 100}
	r.sub = dialPlain(t, addr, "connect id=s v=4 "+connect, fmt.Sprint("subscribe id=1 f=bench/topic q=", qos))
	r.pub = dialPlain(t, addr, "connect id=p v=4 "+connect)
	r.out = block(r.count, 4, qos, "rep:64")
	r.in = make([]byte, len(r.out))
	r.answers = make([]byte, 4*r.count)
	for id := range r.count {
		r.release = append(r.release, 0x62, 2, 0, byte(id+1))
	}
	return r
}

// swap writes and reads on one connection.
func (r *confirmed) swap(t testing.TB, c *plainClient, out, in []byte) {
	if _, err := c.conn.Write(out); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c.conn, in); err != nil {
		t.Fatal(err)
	}
}

// receive takes the deliveries and answers each with a packet of that kind.
func (r *confirmed) receive(t testing.TB, first byte) {
	if _, err := io.ReadFull(r.sub.conn, r.in); err != nil {
		t.Fatal(err)
	}
	size := len(r.in) / r.count
	r.say = r.say[:0]
	for i := range r.count {
		id := r.in[i*size+2+2+len("bench/topic"):]
		r.say = append(r.say, first, 2, id[0], id[1])
	}
}

func (r *confirmed) round(t testing.TB) {
	r.swap(t, r.pub, r.out, r.answers)
	if r.qos == 1 {
		r.receive(t, 0x40)
		if _, err := r.sub.conn.Write(r.say); err != nil {
			t.Fatal(err)
		}
		return
	}
	r.swap(t, r.pub, r.release, r.answers)
	r.receive(t, 0x50)
	r.swap(t, r.sub, r.say, r.answers)
	for i := range r.answers {
		if i%4 == 0 {
			r.answers[i] = 0x70 // PUBCOMP for each PUBREL
		}
	}
	if _, err := r.sub.conn.Write(r.answers); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkConfirmed(b *testing.B) {
	for qos := 1; qos <= 2; qos++ {
		b.Run(fmt.Sprint("QoS", qos), func(b *testing.B) {
			r := newConfirmed(b, qos, "clean")
			b.SetBytes(int64(len(r.out)))
			b.ReportAllocs()
			for b.Loop() {
				r.round(b)
			}
		})
	}
}
