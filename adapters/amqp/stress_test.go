package amqp

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	rabbit "github.com/rabbitmq/amqp091-go"
)

// dial opens a connection of RabbitMQ's own rabbit.
func dial(t testing.TB, addr string) *rabbit.Connection {
	c, err := rabbit.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Publishers with confirms against consumers that acknowledge, give back, close
// their channels and cut their connections: every confirmed message is
// acknowledged at last, and none that was acknowledged comes again.
func TestStress(t *testing.T) {
	addr := listen(t, DefaultConfig())
	const publishers, consumers, each = 3, 4, 400
	admin := dial(t, addr)
	defer admin.Close()
	ch, err := admin.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("work", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	s := &ledger{acked: map[string]bool{}, done: make(chan struct{}), want: publishers * each}
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() { publishAll(t, addr, p, each) })
	}
	for c := range consumers {
		all.Go(func() {
			for s.open() {
				s.consume(t, addr, rand.New(rand.NewPCG(uint64(c), 7)))
			}
		})
	}
	select {
	case <-s.done:
	case <-time.After(time.Minute):
		t.Errorf("%d of %d acknowledged", len(s.acked), s.want)
		s.end()
	}
	all.Wait()
	q, err := ch.QueueDeclarePassive("work", false, false, false, false, nil)
	if err != nil || q.Messages != 0 || q.Consumers != 0 {
		t.Errorf("left: %+v, %v", q, err)
	}
}

func publishAll(t *testing.T, addr string, p, each int) {
	c := dial(t, addr)
	defer c.Close()
	ch, err := c.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	if err := ch.Confirm(false); err != nil {
		t.Error(err)
		return
	}
	confirmed := ch.NotifyPublish(make(chan rabbit.Confirmation, each))
	for i := range each {
		body := fmt.Sprintf("%d-%d-%s", p, i, strings.Repeat("x", i*i%5000))
		if err := ch.Publish("", "work", i%3 == 0, false, rabbit.Publishing{Body: []byte(body), DeliveryMode: uint8(i%3) % 3}); err != nil {
			t.Error(err)
			return
		}
	}
	for i := range each {
		if k := <-confirmed; !k.Ack || k.DeliveryTag != uint64(i+1) {
			t.Errorf("confirm %d of publisher %d: %+v", i+1, p, k)
			return
		}
	}
}

// ledger is what was acknowledged.
type ledger struct {
	mu     sync.Mutex
	acked  map[string]bool
	want   int
	ending sync.Once
	done   chan struct{}
}

func (s *ledger) end() { s.ending.Do(func() { close(s.done) }) }

func (s *ledger) open() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// consume works until it has enough of its connection.
func (s *ledger) consume(t *testing.T, addr string, rng *rand.Rand) {
	c := dial(t, addr)
	defer c.Close()
	ch, err := c.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	if err := ch.Qos(1+rng.IntN(20), 0, rng.IntN(2) == 0); err != nil {
		t.Error(err)
		return
	}
	arriving, err := ch.Consume("work", "c", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return
	}
	for n := rng.IntN(200); n > 0; n-- {
		select {
		case <-s.done:
			return
		case d := <-arriving:
			if !s.settle(t, d, rng) {
				return
			}
		}
	}
	switch rng.IntN(3) {
	case 0:
		_ = ch.Cancel("c", false)
	case 1:
		_ = ch.Close()
	}
}

func (s *ledger) settle(t *testing.T, d rabbit.Delivery, rng *rand.Rand) bool {
	id := string(d.Body)
	s.mu.Lock()
	again := s.acked[id]
	s.mu.Unlock()
	if again {
		t.Errorf("%.20s comes again", id)
		return false
	}
	if rng.IntN(4) == 0 {
		return d.Nack(false, true) == nil
	}
	s.mu.Lock()
	s.acked[id] = true
	whole := len(s.acked) == s.want
	s.mu.Unlock()
	if d.Ack(false) != nil {
		return false
	}
	if whole {
		s.end()
	}
	return true
}
