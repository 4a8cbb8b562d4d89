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
