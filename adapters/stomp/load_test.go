package stomp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// worker takes messages off a queue in every way there is.
type worker struct {
	conn net.Conn
	in   *bufio.Reader
	seen map[string]int
	acts int
}

// message reads the next MESSAGE; ok is false at the end.
func (w *worker) message() (ack, body string, ok bool) {
	for {
		text, err := w.in.ReadString(0)
		if err != nil {
			return "", "", false
		}
		head, rest, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n\n")
		if !strings.HasPrefix(head, "MESSAGE") {
			if strings.HasPrefix(head, "ERROR") {
				return "", text, false
			}
			continue
		}
		_, ack, _ = strings.Cut(head, "\nack:")
		ack, _, _ = strings.Cut(ack, "\n")
		return ack, strings.TrimSuffix(rest, "\x00"), true
	}
}

// work settles messages: at once, in a transaction, in one that is aborted before, or
// gives them back the first time.
func (w *worker) work(settled func(body string)) string {
	for {
		ack, body, ok := w.message()
		if !ok {
			return body
		}
		w.seen[body]++
		w.acts++
		frames := ""
		switch tx := fmt.Sprint("t", w.acts); w.acts % 4 {
		case 0:
			frames = "ACK\nid:" + ack + "\n\n\x00"
		case 1:
			frames = "BEGIN\ntransaction:" + tx + "\n\n\x00ACK\ntransaction:" + tx + "\nid:" + ack + "\n\n\x00COMMIT\ntransaction:" + tx + "\n\n\x00"
		case 2:
			frames = "BEGIN\ntransaction:" + tx + "\n\n\x00ACK\ntransaction:" + tx + "\nid:" + ack + "\n\n\x00ABORT\ntransaction:" + tx + "\n\n\x00" +
				"ACK\nid:" + ack + "\n\n\x00"
		default:
			if w.seen[body] == 1 {
				frames = "NACK\nid:" + ack + "\n\n\x00"
				break
			}
			frames = "ACK\nid:" + ack + "\n\n\x00"
		}
		if _, err := io.WriteString(w.conn, frames); err != nil {
			return ""
		}
		if !strings.HasPrefix(frames, "NACK") {
			settled(body)
		}
	}
}

// TestWorkersUnderLoad: four workers and four senders on one queue; every message is
// settled once and nothing is left.
func TestWorkersUnderLoad(t *testing.T) {
	addr, broker := testServer(t, DefaultConfig())
	const senders, each = 4, 500
	var mu sync.Mutex
	done := map[string]int{}
	all := make(chan struct{})
	settled := func(body string) {
		mu.Lock()
		defer mu.Unlock()
		if done[body]++; len(done) == senders*each && done[body] == 1 {
			close(all)
		}
	}
	var wg sync.WaitGroup
	var workers []*worker
	for range 4 {
		c := rawClient(t, addr, "SUBSCRIBE\nid:0\ndestination:/queue/load\nack:client-individual\nprefetch-count:10\nreceipt:r\n\n\x00")
		awaitReceipt(t, c)
		if err := c.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
			t.Fatal(err)
		}
		w := &worker{conn: c, in: bufio.NewReader(c), seen: map[string]int{}}
		workers = append(workers, w)
		wg.Add(1)
		go func() {
			defer wg.Done()
			if refused := w.work(settled); refused != "" {
				t.Errorf("a worker was refused: %q", refused)
			}
		}()
	}
	for s := range senders {
		p := rawClient(t, addr, "")
		for i := range each {
			if _, err := fmt.Fprintf(p, "SEND\ndestination:/queue/load\n\n%d.%d\x00", s, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-all:
	case <-time.After(60 * time.Second):
		t.Fatalf("%d of %d settled", len(done), senders*each)
	}
	empty := func() bool {
		s := broker.Stats().Engine
		return s.Ready == 0 && s.Unsettled == 0
	}
	for end := time.Now().Add(20 * time.Second); !empty() && time.Now().Before(end); {
		awaitReceipt(t, rawClient(t, addr, "SEND\ndestination:/topic/nobody\nreceipt:r\n\n\x00"))
	}
	if !empty() {
		t.Errorf("left: %+v", broker.Stats().Engine)
	}
	for _, w := range workers {
		w.conn.Close()
	}
	wg.Wait()
	for body, n := range done {
		if n != 1 {
			t.Errorf("%s was settled %d times", body, n)
		}
	}
	if len(done) != senders*each {
		t.Errorf("%d of %d", len(done), senders*each)
	}
}
