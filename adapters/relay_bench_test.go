package adapters

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
)

// BenchmarkRelay sends messages of 64 bytes through a relay in a process of its
// own and reports the processor time that one took there, for the outbox and
// reader of this package and for bufio.
func BenchmarkRelay(b *testing.B) {
	for _, load := range []struct {
		name           string
		pubs, subs     int
		batch, perRead int
	}{
		{"batched/4to4", 4, 4, 256, 1},
		{"batched/4to1", 4, 1, 256, 1},
		{"batched/1to50", 1, 50, 256, 50},
		{"single/4to4", 4, 4, 1, 1},
		{"single/1to1", 1, 1, 1, 1},
		{"single/1to50", 1, 50, 1, 50},
	} {
		for _, kind := range []string{"adapters", "plain"} {
			b.Run(load.name+"/"+kind, func(b *testing.B) {
				relayLoad(b, kind, load.pubs, load.subs, load.batch, load.perRead)
			})
		}
	}
	for _, pairs := range []int{1, 4, 32} {
		for _, kind := range []string{"adapters", "plain"} {
			b.Run(fmt.Sprintf("turns/%d/%s", pairs, kind), func(b *testing.B) { relayTurns(b, kind, pairs) })
		}
	}
}

// relayTurns lets each pair have one message on its way, so that the relay
// reads and writes once for each.
func relayTurns(b *testing.B, kind string, pairs int) {
	child := startRelay(b, kind)
	each := (b.N + pairs - 1) / pairs
	pubs, subs := make([]net.Conn, pairs), make([]net.Conn, pairs)
	for i := range pairs {
		subs[i] = relayDial(b, child.addr, string([]byte{'S', byte(i)}))
		pubs[i] = relayDial(b, child.addr, "P")
	}
	before := child.used(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range pairs {
		wg.Go(func() {
			frame := make([]byte, 2+64)
			frame[1], frame[2] = 64, byte(i)
			back := make([]byte, len(frame))
			for range each {
				_, err := pubs[i].Write(frame)
				if err == nil {
					_, err = io.ReadFull(subs[i], back)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	used := child.used(b) - before
	b.ReportMetric(float64(used.Nanoseconds())/float64(each*pairs), "cpu-ns/op")
}

func relayLoad(b *testing.B, kind string, pubs, subs, batch, copies int) {
	child := startRelay(b, kind)
	frame := make([]byte, 2+64)
	frame[1] = 64
	var out, in sync.WaitGroup
	each := (b.N + pubs*batch - 1) / (pubs * batch)
	total := each * pubs * batch
	for i := range subs {
		c := relayDial(b, child.addr, string([]byte{'S', byte(i)}))
		want := int64(total * copies / subs * len(frame))
		in.Go(func() {
			if n, err := io.CopyN(io.Discard, struct{ io.Reader }{c}, want); err != nil {
				b.Errorf("received %d of %d bytes: %v", n, want, err)
			}
		})
	}
	conns := make([]net.Conn, pubs)
	for i := range conns {
		conns[i] = relayDial(b, child.addr, "P")
	}
	before := child.used(b)
	b.ResetTimer()
	for i, c := range conns {
		run := make([]byte, 0, batch*len(frame))
		frame[2] = byte(i % subs)
		if copies > 1 {
			frame[2] = toAll
		}
		for range batch {
			run = append(run, frame...)
		}
		out.Go(func() {
			for range each {
				if _, err := c.Write(run); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	out.Wait()
	in.Wait()
	b.StopTimer()
	used := child.used(b) - before
	b.ReportMetric(float64(used.Nanoseconds())/float64(total), "cpu-ns/op")
}

// BenchmarkIdle reports what a connection costs the relay's process that logged
// in, was heard once more, and is silent.
func BenchmarkIdle(b *testing.B) {
	for _, kind := range []string{"adapters", "plain"} {
		b.Run(kind, func(b *testing.B) {
			const n = 5000
			for b.Loop() {
				child := startRelay(b, kind)
				before := child.resident(b)
				conns := make([]net.Conn, n)
				for i := range conns {
					conns[i] = relayDial(b, child.addr, "S\xfe")
				}
				for _, c := range conns {
					if _, err := c.Write([]byte{0, 1, 0xfd}); err != nil { // to nobody: an answer
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(child.resident(b)-before)/n, "resident-B/conn")
				for _, c := range conns {
					_ = c.Close()
				}
			}
		})
	}
}

func (c *relayChild) resident(tb testing.TB) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	if err != nil {
		tb.Skip(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		tb.Fatal(err)
	}
	return resident * os.Getpagesize()
}
