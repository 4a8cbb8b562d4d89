package stomp

import (
	"bufio"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
)

// While a disk fails, a SEND for it is refused with the reason and without the
// name of a file, and who comes to work on a queue that is there gets what is in
// it. It ends by itself.
// It shows fault 71.
func TestWorkersOfAFailedDisk(t *testing.T) {
	disk := store.MemoryDisk()
	addr := diskServer(t, disk)
	const persistent = "SEND\ndestination:/queue/q\nreceipt:r\npersistent:true\n\n"
	awaitReceipt(t, rawClient(t, addr, persistent+"before\x00"))
	disk.Fail("sync", ".log", syscall.EIO)
	awaitText(t, rawClient(t, addr, persistent+"refused\x00"), "no room: disk: store failed: input/output error\n")
	worker := rawClient(t, addr, "SUBSCRIBE\ndestination:/queue/q\nid:1\nack:auto\nreceipt:s\n\n\x00")
	awaitText(t, worker, "before")
	disk.Heal()
	for end := time.Now().Add(10 * time.Second); ; {
		// A STOMP client that is refused has to come again.
		c := rawClient(t, addr, persistent+"after\x00")
		if refused := awaitEither(t, c, "receipt-id:r\n", "no room"); !refused {
			break
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatal("the store does not come back")
		}
	}
	awaitText(t, worker, "after")
}

// diskServer is testServer with a disk.
func diskServer(t *testing.T, disk *store.Disk) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open("data", store.Options{Disk: disk, RetryEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	engine, err := local.Open(log, st, "default")
	if err != nil {
		t.Fatal(err)
	}
	broker := core.NewBroker(core.DefaultConfig(), "default", engine, nil, log)
	if err := broker.Restore(st); err != nil {
		t.Fatal(err)
	}
	return serve(t, DefaultConfig(), broker, log)
}

// awaitText reads until a text came.
func awaitText(t *testing.T, c net.Conn, text string) {
	t.Helper()
	awaitEither(t, c, text, text)
}

// awaitEither reads until a frame holds one of two texts; true for the second.
func awaitEither(t *testing.T, c net.Conn, first, second string) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for {
		frame, err := r.ReadString(0)
		switch {
		case err != nil:
			t.Fatalf("no %q: %v", first, err)
		case strings.Contains(frame, second):
			return true
		case strings.Contains(frame, first):
			return false
		}
	}
}
