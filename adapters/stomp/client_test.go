package stomp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/go-stomp/stomp/v3"

	"entrepot/core"
	"entrepot/core/local"
)

// testServer listens on a free port of the loopback interface.
func testServer(t testing.TB, cfg Config) (addr string, broker *core.Broker) {
	log := slog.New(slog.DiscardHandler)
	broker = core.NewBroker(core.DefaultConfig(), "default", local.New(log), nil, log)
	return serve(t, cfg, broker, log), broker
}

// serve is a server for a broker, which it closes after itself.
func serve(t testing.TB, cfg Config, broker *core.Broker, log *slog.Logger) string {
	s := New(cfg, core.NewRealms(broker), log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		broker.Close()
	})
	return l.Addr().String()
}

// quiet is a logger for clients whose connections end before their subscriptions.
type quiet struct{}

func (quiet) Debugf(string, ...any)   {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Debug(string)            {}
func (quiet) Info(string)             {}
func (quiet) Warning(string)          {}
func (quiet) Error(string)            {}

func dial(t *testing.T, addr string, opts ...func(*client.Conn) error) *client.Conn {
	c, err := client.Dial("tcp", addr, append([]func(*client.Conn) error{
		client.ConnOpt.Host("default"), client.ConnOpt.Logger(quiet{}), client.ConnOpt.HeartBeat(time.Second, time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.MustDisconnect(); err != nil && !errors.Is(err, client.ErrAlreadyClosed) {
			t.Logf("disconnect: %v", err)
		}
	})
	return c
}

func subscribed(t *testing.T, c *client.Conn, dest string, mode client.AckMode) *client.Subscription {
	s, err := c.Subscribe(dest, mode)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func take(t *testing.T, s *client.Subscription) *client.Message {
	t.Helper()
	select {
	case m := <-s.C:
		if m == nil || m.Err != nil {
			t.Fatalf("subscription ended: %+v", m)
		}
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("no message")
		return nil
	}
}

func send(t *testing.T, c *client.Conn, dest, body string) {
	t.Helper()
	if err := c.Send(dest, "text/plain", []byte(body), client.SendOpt.Receipt); err != nil {
		t.Fatal(err)
	}
}

// TestGoStomp: go-stomp's client in each version, over a socket.
func TestGoStomp(t *testing.T) {
	addr, _ := testServer(t, DefaultConfig())
	for _, v := range []client.Version{client.V10, client.V11, client.V12} {
		t.Run(string(v), func(t *testing.T) {
			opt := client.ConnOpt.AcceptVersion(v)
			a, b := dial(t, addr, opt), dial(t, addr, opt)
			if a.Version() != v {
				t.Fatalf("version %s", a.Version())
			}
			queue := "/queue/go-" + string(v)
			t.Run("binary, empty and large bodies", func(t *testing.T) { bodies(t, a, b, queue+"-b") })
			t.Run("transactions", func(t *testing.T) { transactions(t, a, b, queue+"-t") })
			t.Run("acknowledgements", func(t *testing.T) { acknowledgements(t, a, b, dial(t, addr, opt), queue+"-a") })
		})
	}
}

func bodies(t *testing.T, a, b *client.Conn, queue string) {
	s := subscribed(t, b, queue, client.AckAuto)
	for _, body := range []string{"text", "", "\x00\n\x00\r\n", strings.Repeat("0123456789\x00", 300_000)} {
		send(t, a, queue, body)
		m := take(t, s)
		if string(m.Body) != body || m.ContentType != "text/plain" || m.Destination != queue {
			t.Errorf("%d bytes of %s at %s, not %d", len(m.Body), m.ContentType, m.Destination, len(body))
		}
	}
}

func acknowledgements(t *testing.T, a, b, c *client.Conn, queue string) {
	for i := range 5 {
		send(t, a, queue, fmt.Sprint(i))
	}
	s := subscribed(t, b, queue, client.AckClient)
	var got []*client.Message
	for i := range 5 {
		m := take(t, s)
		if string(m.Body) != fmt.Sprint(i) {
			t.Errorf("%q at %d", m.Body, i)
		}
		got = append(got, m)
	}
	if err := b.Ack(got[2]); err != nil {
		t.Fatal(err)
	}
	if err := b.Disconnect(); err != nil {
		t.Fatal(err)
	}
	s = subscribed(t, c, queue, client.AckClientIndividual)
	for i := 3; i < 5; i++ {
		m := take(t, s)
		if string(m.Body) != fmt.Sprint(i) || m.Header.Get("redelivered") != "true" {
			t.Errorf("%q %v", m.Body, m.Header)
		}
		if err := c.Ack(m); err != nil {
			t.Fatal(err)
		}
	}
	if c.Version() != client.V10 {
		send(t, a, queue, "again")
		if err := c.Nack(take(t, s)); err != nil {
			t.Fatal(err)
		}
		if err := c.Ack(take(t, s)); err != nil {
			t.Fatal(err)
		}
	}
}

func transactions(t *testing.T, a, b *client.Conn, queue string) {
	s := subscribed(t, b, queue, client.AckAuto)
	for _, commit := range []bool{false, true} {
		tx := a.Begin()
		if err := tx.Send(queue, "text/plain", fmt.Append(nil, commit)); err != nil {
			t.Fatal(err)
		}
		end := tx.Abort
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	if m := take(t, s); string(m.Body) != "true" {
		t.Errorf("%q", m.Body)
	}
}

// TestPerl: Perl's Net::Stomp, version 1.0.
func TestPerl(t *testing.T) {
	if err := exec.Command("perl", "-MNet::Stomp", "-e1").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("missing: libnet-stomp-perl")
		}
		t.Skip("missing: libnet-stomp-perl")
	}
	addr, _ := testServer(t, DefaultConfig())
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("perl", "../../testdata/stomp/net_stomp.pl", host, port).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("not ok")) || bytes.Count(out, []byte("ok ")) != 10 {
		t.Errorf("%v\n%s", err, out)
	}
}

// rawClient is a client of a few lines, to read as slowly as a test wants.
func rawClient(t *testing.T, addr, frames string) net.Conn {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, "CONNECT\naccept-version:1.2\n\n\x00"+frames); err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitReceipt reads until the receipt r came.
func awaitReceipt(t *testing.T, c net.Conn) {
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("receipt-id:r\n\n\x00")); got = append(got, one[0]) {
		if _, err := c.Read(one); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
	}
}

// TestSlowSubscriber [fault 85]: in each ack mode, a subscriber that does not read
// costs bounded memory, its oldest messages are dropped and counted, and one beside it
// gets everything.
func TestSlowSubscriber(t *testing.T) {
	for _, mode := range []string{"auto", "client", "client-individual"} {
		t.Run(mode, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.SubscriptionLength = 1000
			addr, broker := testServer(t, cfg)
			slow := rawClient(t, addr, "SUBSCRIBE\nid:0\ndestination:/topic/load\nprefetch-count:0\nreceipt:r\nack:"+mode+"\n\n\x00")
			awaitReceipt(t, slow)
			fast := rawClient(t, addr, "SUBSCRIBE\nid:0\ndestination:/topic/load\nreceipt:r\n\n\x00")
			awaitReceipt(t, fast)
			p := rawClient(t, addr, "")
			const size, step, steps = 1000, 200, 150
			frame := "SEND\ndestination:/topic/load\ncontent-length:1000\n\n" + strings.Repeat("x", size) + "\x00"
			block, buf := []byte(strings.Repeat(frame, step)), make([]byte, 64<<10)
			for range steps { // the fast one keeps up: each step waits for it
				if _, err := p.Write(block); err != nil {
					t.Fatal(err)
				}
				for left := step; left > 0; {
					if err := fast.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
						t.Fatal(err)
					}
					n, err := fast.Read(buf)
					if err != nil {
						t.Fatalf("%d messages are missing: %v", left, err)
					}
					left -= bytes.Count(buf[:n], []byte{0})
				}
			}
			var mem runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&mem)
			// In auto mode: outbox and queue. Else what may be out for ACK too.
			limit := uint64(16 << 20)
			if mode != "auto" {
				limit += uint64(cfg.UnackedBytes)
			}
			if mem.HeapAlloc > limit {
				t.Errorf("%d KiB of heap", mem.HeapAlloc>>10)
			}
			if n := broker.Stats().Protocols[protocol].Dropped["overflow"]; n == 0 {
				t.Error("no drops counted")
			}
		})
	}
}

// TestDeadWorkers: workers that vanish in each ack mode leave their messages to others,
// in their order and once more counted.
// It shows fault 76.
func TestDeadWorkers(t *testing.T) {
	for _, mode := range []string{"client", "client-individual"} {
		t.Run(mode, func(t *testing.T) {
			addr, _ := testServer(t, DefaultConfig())
			a := dial(t, addr)
			for i := range 20 {
				send(t, a, "/queue/jobs", fmt.Sprint(i))
			}
			for range 3 {
				w := rawClient(t, addr, "SUBSCRIBE\nid:0\ndestination:/queue/jobs\nprefetch-count:7\nreceipt:r\nack:"+mode+"\n\n\x00")
				awaitReceipt(t, w)
				w.Close()
			}
			// The broker notices on its own time; what is taken back by then comes first.
			s := subscribed(t, a, "/queue/jobs", client.AckAuto)
			got := map[string]bool{}
			for range 20 {
				m := take(t, s)
				if got[string(m.Body)] {
					t.Errorf("%s came twice", m.Body)
				}
				got[string(m.Body)] = true
			}
		})
	}
}

// TestQueueDeleted: a subscriber is told when its queue is deleted under it.
func TestQueueDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig()}
		tr.start()
		defer tr.end()
		a := tr.client("a")
		tr.send(a, "CONNECT\naccept-version:1.2\n\n^@SUBSCRIBE\nid:0\ndestination:/queue/q\n\n^@")
		tr.expect(a, "CONNECTED\n...\n\n^@")
		s, _, err := tr.broker.Connect(t.Context(), core.Hello{Protocol: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(core.CloseNormal)
		if _, err := s.DeleteQueue(t.Context(), core.Named("q"), core.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		tr.expectError(a, "subscription ended")
	})
}
