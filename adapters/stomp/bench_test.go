package stomp

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// benchClient connects and, when dest is not empty, subscribes.
func benchClient(b *testing.B, addr, dest string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	hello := "CONNECT\naccept-version:1.2\nhost:default\n\n\x00"
	want := 1
	if dest != "" {
		hello += "SUBSCRIBE\nid:0\ndestination:" + dest + "\nreceipt:r\n\n\x00"
		want = 2
	}
	if _, err := c.Write([]byte(hello)); err != nil {
		b.Fatal(err)
	}
	one := make([]byte, 1)
	for want > 0 {
		if _, err := c.Read(one); err != nil {
			b.Fatal(err)
		}
		if one[0] == 0 {
			want--
		}
	}
	return c
}

// benchFlow sends n frames and waits until every subscriber saw n NULs.
func benchFlow(b *testing.B, subs int, destination string) {
	cfg := DefaultConfig()
	cfg.SubscriptionLength = 1 << 40
	cfg.SubscriptionBytes = 1 << 40
	addr, _ := testServer(b, cfg)
	done := make(chan error, subs)
	for range subs {
		c := benchClient(b, addr, destination)
		go func() {
			buf := make([]byte, 256<<10)
			for left := b.N; left > 0; {
				n, err := c.Read(buf)
				if err != nil {
					done <- err
					return
				}
				left -= bytes.Count(buf[:n], []byte{0})
			}
			done <- nil
		}()
	}
	p := benchClient(b, addr, "")
	frame := []byte("SEND\ndestination:" + destination + "\ncontent-length:64\n\n" + string(bytes.Repeat([]byte{'x'}, 64)) + "\x00")
	block := bytes.Repeat(frame, 256)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		n := min(left, 256)
		if _, err := p.Write(block[:n*len(frame)]); err != nil && err != io.EOF {
			b.Fatal(err)
		}
		left -= n
	}
	for range subs {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTopicPair(b *testing.B)  { benchFlow(b, 1, "/topic/a.b") }
func BenchmarkTopicFan50(b *testing.B) { benchFlow(b, 50, "/topic/a.b") }
func BenchmarkQueuePair(b *testing.B)  { benchFlow(b, 1, "/queue/q") }
