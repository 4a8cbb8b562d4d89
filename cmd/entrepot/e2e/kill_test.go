package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestKilled kills the built program at random moments under load and starts it
// again on the same data, round after round. MQTT clients of QoS 1 and 2 and
// STOMP clients with receipts publish; STOMP workers acknowledge each message
// with a receipt, and an MQTT client with a session takes what comes by topic.
// Nothing that was confirmed is lost, nothing whose acknowledgement was
// confirmed returns, nothing of QoS 2 comes twice, and the order of each
// publisher is kept.
// It shows fault 68.
// It shows fault 106.
func TestKilled(t *testing.T) {
	rounds := 5
	if os.Getenv("ENTREPOT_SOAK") != "" {
		rounds = 50
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, seed))
	k := newSiege(t)
	for range rounds {
		k.begin(true)
		life := time.NewTimer(time.Duration(50+dice.IntN(400)) * time.Millisecond)
		<-life.C
		k.program.kill(t)
		k.end()
		if t.Failed() {
			return
		}
	}
	k.begin(false)
	if !eventually(30*time.Second, k.settled) {
		for _, f := range k.flows {
			if lost := f.lost(); len(lost) > 0 {
				t.Errorf("%s: lost, from and to: %v", f.name, lost)
			}
		}
	}
	k.program.kill(t)
	k.end()
	for _, f := range k.flows {
		t.Log(f)
		if len(f.confirmed) < rounds {
			t.Errorf("%s: %d messages are no load", f.name, len(f.confirmed))
		}
	}
}

// siege is a program that is killed again and again, and its clients.
type siege struct {
	t       *testing.T
	binary  string
	data    string
	program *program
	flows   []*flow
	taker   *sessionTaker
	clients []sieger // all others

	conns []net.Conn
	all   sync.WaitGroup
	fresh bool // publishers make new messages
}

// sieger is a client: run uses one connection until that fails.
type sieger interface {
	protocol() string
	run(k *siege, c net.Conn)
}

func newSiege(t *testing.T) *siege {
	k := &siege{t: t, binary: buildProgram(t), data: filepath.Join(t.TempDir(), "data")}
	add := func(name string, once bool) *flow {
		f := &flow{t: t, name: name, once: once, confirmed: map[int]bool{}, came: map[int]bool{}, acked: map[int]bool{}}
		k.flows = append(k.flows, f)
		return f
	}
	one, two, three := add("MQTT QoS 1 to a queue", false), add("MQTT QoS 2 to a queue", false), add("STOMP to a queue", false)
	four, five := add("MQTT QoS 1 to a session", false), add("MQTT QoS 2 to a session", true)
	k.taker = &sessionTaker{flows: map[string]*flow{"kill/1": four, "kill/2": five}}
	k.clients = []sieger{
		&stompWorker{flow: one, queue: "kill1"}, &stompWorker{flow: two, queue: "kill2"}, &stompWorker{flow: three, queue: "kill3"},
		&mqttSender{flow: one, topic: "$queue/kill1", qos: 1}, &mqttSender{flow: two, topic: "$queue/kill2", qos: 2},
		&stompSender{flow: three, queue: "kill3"},
		&mqttSender{flow: four, topic: "kill/1", qos: 1}, &mqttSender{flow: five, topic: "kill/2", qos: 2},
	}
	return k
}

// begin starts the program and lets all clients at it. Nothing is published
// before there is a session for it.
func (k *siege) begin(fresh bool) {
	k.t.Helper()
	k.program, k.fresh = launch(k.t, k.binary, "--data", k.data), fresh
	for _, f := range k.flows {
		f.begin()
	}
	k.conns = nil
	k.connect(k.taker)
	if !eventually(20*time.Second, k.taker.known.Load) {
		k.t.Fatal("no SUBACK")
	}
	for _, c := range k.clients {
		k.connect(c)
	}
}

func (k *siege) connect(c sieger) {
	k.t.Helper()
	conn, err := net.Dial("tcp", k.program.addr(c.protocol()))
	if err != nil {
		k.t.Fatal(err)
	}
	k.conns = append(k.conns, conn)
	k.all.Go(func() {
		defer conn.Close()
		c.run(k, conn)
	})
}

// end waits for the clients of a program that has ended.
func (k *siege) end() {
	for _, c := range k.conns {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // the system may not tell them
	}
	k.all.Wait()
}

func (k *siege) settled() bool {
	for _, f := range k.flows {
		if !f.settled() {
			return false
		}
	}
	return true
}

// flow is the messages from one publisher to one taker, by number from 1.
type flow struct {
	t    *testing.T
	name string
	once bool // the taker sees each message once, whatever happens

	mu        sync.Mutex
	sent      int
	confirmed map[int]bool // to the publisher
	came      map[int]bool
	acked     map[int]bool // by the taker, who was told that it is
	lives     []int        // sent before each life of the program
	last      int          // came in this life
	again     int          // came in several lives
}

// String is the flow's figures.
func (f *flow) String() string {
	return fmt.Sprintf("%s: %d sent (before each life: %v), %d confirmed, %d came, %d of them again, %d acknowledgements confirmed",
		f.name, f.sent, f.lives, len(f.confirmed), len(f.came), f.again, len(f.acked))
}

// begin is a new life of the program: what came and is not settled may come
// again.
func (f *flow) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives = append(f.lives, f.sent)
	if !f.once {
		f.last = 0
	}
}

func (f *flow) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent++
	return f.sent
}

func (f *flow) confirm(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmed[n] = true
}

// take is what the taker got.
func (f *flow) take(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case n > f.sent:
		f.t.Errorf("%s: %d was never sent", f.name, n)
	case f.acked[n]:
		f.t.Errorf("%s: %d returned after its acknowledgement was confirmed", f.name, n)
	case n <= f.last:
		f.t.Errorf("%s: %d came after %d", f.name, n, f.last)
	}
	if f.came[n] {
		f.again++
	}
	f.came[n], f.last = true, n
}

func (f *flow) settle(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked[n] = true
}

// lost is what was confirmed and did not come, as the first and last of each run
// of numbers.
func (f *flow) lost() (runs [][2]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.sent + 1 {
		if !f.confirmed[n] || f.came[n] {
			continue
		}
		if i := len(runs) - 1; i >= 0 && runs[i][1] == n-1 {
			runs[i][1] = n
		} else {
			runs = append(runs, [2]int{n, n})
		}
	}
	return runs
}

// settled tells whether all that was confirmed has come.
func (f *flow) settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.confirmed {
		if !f.came[n] {
			return false
		}
	}
	return true
}
