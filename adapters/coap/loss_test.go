package coap

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/routing"
)

// tally counts what a subscriber of the core gets.
type tally struct{ got map[string]int }

func (c *tally) Deliver(d core.Delivery) core.Verdict {
	c.got[string(d.Payload)]++
	return core.Settled
}

// count attaches a tally to a topic.
func (s *scene) count(topic string) *tally {
	s.t.Helper()
	session, _, err := s.broker.Connect(s.t.Context(), core.Hello{Protocol: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := routing.ParseFilter(topic)
	if err != nil {
		s.t.Fatal(err)
	}
	key := core.Key(core.TopicQueue, "tally", topic)
	c := &tally{got: map[string]int{}}
	if _, err := session.DeclareQueue(s.t.Context(), core.QueueSpec{Key: key, AutoDelete: true}); err != nil {
		s.t.Fatal(err)
	}
	if err := session.Bind(s.t.Context(), core.BindSpec{Source: core.TopicExchange, Queue: key, Filter: f}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := session.Consume(s.t.Context(), key, core.ConsumeOptions{NoAck: true}, c); err != nil {
		s.t.Fatal(err)
	}
	s.sessions = append(s.sessions, session)
	return c
}

// device publishes confirmable messages one after the other, sending each again
// until it is answered (RFC 7252, 4.2); it returns how many were answered.
func (c *client) device(n int, path ...string) int {
	answered := 0
	for i := range n {
		b := c.request(message.Confirmable, codes.POST, uint16(i), path, fmt.Sprintf("%s %d", c.at, i)).append(nil)
		wait := 2 * time.Second
		for range 30 {
			c.mesh.carry(b, c.at, c.server())
			time.Sleep(wait)
			if c.answeredTo(uint16(i)) {
				answered++
				break
			}
			wait = min(2*wait, 10*time.Second)
		}
	}
	return answered
}

func (c *client) answeredTo(id uint16) bool {
	for _, p := range c.got() {
		if p.kind == message.Acknowledgement && p.id == id && p.code == codes.Changed {
			return true
		}
	}
	return false
}

// [RFC 7252, 4.5] 20 % of the datagrams are lost, as many doubled, as many late:
// every confirmable publish is carried out once, and observers end with the
// newest value (RFC 7641, 1.3).
func TestLossyNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, DefaultConfig())
		defer s.end()
		count := s.count("plant/#")
		watchers := []*client{s.client("w1"), s.client("w2"), s.client("w3")}
		for _, w := range watchers {
			w.ask(w.request(message.Confirmable, codes.GET, 1, []string{"t", "plant", "temp"}, "", message.Option{ID: message.Observe}))
		}
		s.mesh.mu.Lock()
		s.mesh.bad = 0.2
		s.mesh.mu.Unlock()
		newest := make([]string, len(watchers))
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			listen(watchers, newest, stop)
		}()
		const devices, each = 5, 60
		answered := make(chan int)
		for i := range devices {
			c := s.client("d" + strconv.Itoa(i))
			go func() { answered <- c.device(each, "t", "plant", "temp") }()
		}
		for range devices {
			if n := <-answered; n < each {
				t.Errorf("%d of %d were answered", n, each)
			}
		}
		s.broker.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: topicNamed(t, "plant/temp"), Payload: []byte("last"), Retain: true})
		time.Sleep(10 * time.Minute)
		close(stop)
		<-done
		for i, v := range newest {
			if v != "last" {
				t.Errorf("observer %d ends with %q", i, v)
			}
		}
		if len(count.got) != devices*each+1 {
			t.Errorf("%d messages came, want %d", len(count.got), devices*each+1)
		}
		for text, n := range count.got {
			if n != 1 {
				t.Errorf("%q came %d times", text, n)
			}
		}
		s.mesh.mu.Lock()
		lost := s.mesh.lost
		s.mesh.mu.Unlock()
		if lost < 100 {
			t.Errorf("only %d datagrams were lost", lost)
		}
	})
}

// listen acknowledges what observers get and keeps the newest by its Observe
// number; one that was given up registers again when it hears nothing.
func listen(watchers []*client, newest []string, stop chan struct{}) {
	last := make([]uint32, len(watchers))
	quiet := make([]int, len(watchers))
	for round := 2; ; round++ {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		for i, w := range watchers {
			quiet[i]++
			for _, p := range w.got() {
				n, ok := observeOf(&p)
				if p.kind == message.Confirmable {
					w.mesh.carry(appendEmpty(nil, message.Acknowledgement, p.id), w.at, w.server())
				}
				if !ok {
					continue
				}
				quiet[i] = 0
				if last[i] == 0 || (n-last[i])&0xffffff < 1<<23 {
					last[i] = n
					if len(p.payload) > 0 {
						newest[i] = string(p.payload)
					}
				}
			}
			if quiet[i] > 600 { // a minute
				quiet[i] = 0
				b := w.request(message.Confirmable, codes.GET, uint16(round), []string{"t", "plant", "temp"}, "", message.Option{ID: message.Observe})
				b.token = makeToken([]byte{0, 1})
				w.mesh.carry(b.append(nil), w.at, w.server())
			}
		}
	}
}

func observeOf(p *packet) (uint32, bool) {
	for _, o := range p.options {
		if o.ID == message.Observe {
			return uintOf(o.Value), true
		}
	}
	return 0, false
}

func topicNamed(t *testing.T, text string) routing.Topic {
	t.Helper()
	topic, err := routing.ParseTopic(text)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}
