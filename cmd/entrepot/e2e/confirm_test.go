package e2e

import (
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/core/local"
	"entrepot/core/store"
)

// sends are a durable message to the durable queue q from each protocol, and
// how its publisher is told that it is safe.
func sends() map[string]struct{ connect, line, safe string } {
	return map[string]struct{ connect, line, safe string }{
		"mqtt3": {"", `$queue/q "x" qos=1`, "PUBACK"},
		"mqtt5": {"", `$queue/q "x" qos=1`, "PUBACK code=0x00"},
		"stomp": {"", `/queue/q "x" persistent:true receipt:r`, "RECEIPT"},
		"amqp":  {" confirms", `- q "x" mode=2`, "ack=true"},
		"wamp":  {"", `$queue.q "x" acknowledge=true`, "PUBLISHED"},
		"coap":  {"", `/q/q "x"`, "ACK 2.0"},
	}
}

// TestConfirmedOnceOnDisk: no protocol tells its publisher that a durable
// message is safe while the disk does not take it, and each does when it took
// it (fault 106).
func TestConfirmedOnceOnDisk(t *testing.T) {
	disk := store.MemoryDisk()
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open("data", store.Options{Disk: disk, RetryEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.Open(log, st, "/")
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(settings{mqtt: mqtt.DefaultConfig(), stomp: stomp.DefaultConfig(), engine: e})
	if err := b.core.Restore(st); err != nil {
		t.Fatal(err)
	}
	sg := &stage{broker: b, actors: map[string]actor{}, made: map[string]string{}}
	defer func() {
		for _, a := range sg.actors {
			if a, ok := a.(*amqpActor); ok {
				a.leave()
			}
		}
		b.stop(t)
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	sg.tell(t, "amqp", "connect maker", "declare maker q durable")
	for _, fails := range []bool{false, true} {
		if fails {
			disk.Fail("sync", "", syscall.EIO)
		}
		for protocol, s := range sends() {
			who := protocol + map[bool]string{true: "-later"}[fails]
			verb := map[string]string{"stomp": "send", "coap": "post"}[protocol]
			if verb == "" {
				verb = "pub"
			}
			sg.tell(t, protocol, "connect "+who+s.connect, verb+" "+who+" "+s.line)
			if got := sg.answer(t, who, s.safe); got == fails {
				t.Errorf("%s, disk fails %v: told that it is safe %v", protocol, fails, got)
			}
		}
	}
	disk.Heal()
}

// tell plays lines of one protocol without waiting for what comes of them.
func (st *stage) tell(t *testing.T, protocol string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		words, err := split(line)
		if err != nil {
			t.Fatal(err)
		}
		a, err := st.actor(protocol, words[0].text, words[1].text)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.do(words[0].text, words[2:]); err != nil {
			t.Fatalf("%s %s: %v", protocol, line, err)
		}
	}
}

// answer waits for what a client is told and says whether that is text; a client
// that is told nothing for a while is not.
func (st *stage) answer(t *testing.T, who, text string) (told bool) {
	t.Helper()
	refusals := []string{"PUBACK code=0x8", "PUBACK code=0x9", "ERROR", "closed", "CLOSED", "ack=false", "ACK 5.", "ACK 4."}
	eventually(5*time.Second, func() bool {
		for _, e := range st.actors[who].inbox().take() {
			line := e.String()
			if strings.Contains(line, text) {
				told = true
				return true
			}
			if slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(line, r) }) {
				return true
			}
		}
		return false
	})
	return told
}
