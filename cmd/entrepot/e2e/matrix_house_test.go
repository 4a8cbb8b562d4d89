package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	"entrepot/core"
	rights "entrepot/core/auth"
	"entrepot/core/local"
	names "entrepot/routing"
)

// hashed is "secret" in the file of users, quickly checked.
const hashed = "$7$101$XCebrui+4ksU4c3Y$uB8FczC8PT/e7Yqub1g4SNN92A3GQAg37T8HmASkXrOHXjs560S1Ml7YmLQ8UYR7VeEfAA5ptqcbLU4q2D+aYw=="

// matrixHouse is a broker with rules, what they are about, and an observer who
// may do everything. Rows of testdata/matrix.txt are played in one.
type matrixHouse struct {
	*testing.T
	stage    *stage
	engine   *local.Engine
	observer *core.Session

	mu   sync.Mutex
	seen []string // by the observer: where, and the payload
}

// newMatrixHouse: clients of all protocols have to log in, but of CoAP over UDP.
func newMatrixHouse(t *testing.T, row *matrixRow, rules string) *matrixHouse {
	t.Helper()
	h := &matrixHouse{T: t, engine: local.New(quietLog())}
	set := settings{mqtt: mqtt.DefaultConfig(), stomp: stomp.DefaultConfig(), engine: h.engine}
	for _, s := range row.settings {
		h.must(set.set(s))
	}
	h.stage = &stage{broker: newBroker(set), actors: map[string]actor{}, made: map[string]string{}}
	users := filepath.Join(t.TempDir(), "users")
	h.must(os.WriteFile(users, []byte("ann:"+hashed+" psk=30313233343536373839616263646566\nroot:"+hashed+"\n"), 0o600))
	door, err := rights.Config{Users: users, Anonymous: []string{"coap"}, Backoff: rights.DefaultBackoffConfig(),
		Certificate: rights.CertificateConfig{User: "{cn}"}}.Door()
	h.must(err)
	h.stage.broker.core.SetDoor(door)
	r, err := rights.ParseRules([]byte(rules))
	h.must(err)
	h.stage.broker.core.SetPolicy(r.Decide)
	h.furnish()
	return h
}

func (h *matrixHouse) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// see notes what reached the observer.
func (h *matrixHouse) see(where string, payload []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, where+" "+string(payload))
}

// saw is what it was.
func (h *matrixHouse) saw() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.seen, "\n")
}

// watcher receives for the observer.
type watcher struct {
	house *matrixHouse
	where string
}

func (w watcher) Deliver(d core.Delivery) core.Verdict {
	w.house.see(w.where+" "+d.Topic.String(), d.Payload)
	return core.Settled
}

// Invoke answers at once.
func (w watcher) Invoke(b *core.Batch, i *core.Invocation) bool {
	w.house.see("call", i.Message().Payload)
	return i.Yield(b, &core.Message{Payload: []byte("secret")}, false) == nil
}

func (w watcher) Ended(*core.Batch, *core.Invocation, core.CancelMode, error) bool { return true }

// furnish makes what the rows are about: topic a/b (with a value kept at a/r),
// queue in (which the observer empties), q (with a message), gone and s (without),
// exchange x (bound to what the observer reads) and y, procedure dev/on.
func (h *matrixHouse) furnish() {
	ctx := context.Background()
	root, err := h.stage.broker.core.Authenticate(ctx, rights.Credentials{User: "root", Password: "secret"})
	h.must(err)
	h.observer, _, err = h.stage.broker.core.Connect(ctx, core.Hello{Protocol: "observer", ClientID: "root", Principal: root})
	h.must(err)
	for _, x := range []string{"x", "y"} {
		h.must(h.observer.DeclareExchange(ctx, core.ExchangeSpec{Name: x, Kind: names.TopicKind}))
	}
	for _, q := range []string{"in", "q", "gone", "s", "watch", "watch-x"} {
		_, err := h.observer.DeclareQueue(ctx, core.QueueSpec{Key: core.Named(q)})
		h.must(err)
		if q == "in" || strings.HasPrefix(q, "watch") {
			_, err = h.observer.Consume(ctx, core.Named(q), core.ConsumeOptions{NoAck: true}, watcher{h, q})
			h.must(err)
		}
	}
	all, err := names.ParseFilter("#")
	h.must(err)
	never, err := names.ParseFilter("never")
	h.must(err)
	h.must(h.observer.Bind(ctx, core.BindSpec{Source: core.TopicExchange, Queue: core.Named("watch"), Filter: all}))
	h.must(h.observer.Bind(ctx, core.BindSpec{Source: "x", Queue: core.Named("watch-x"), Filter: all}))
	h.must(h.observer.Bind(ctx, core.BindSpec{Source: core.RPCExchange, Queue: core.Named("watch-x"), Filter: never})) // so that there is such an exchange
	on, err := names.ParseFilter("dev/on")
	h.must(err)
	_, err = h.observer.Register(core.RegisterSpec{Filter: on}, watcher{h, "dev/on"})
	h.must(err)
	h.tell("", "q", "secret", false)
	h.tell(core.TopicExchange, "a/r", "kept", true)
	synctest.Wait()
}

// tell publishes.
func (h *matrixHouse) tell(exchange, name, text string, retain bool) {
	topic, err := names.ParseTopic(name)
	h.must(err)
	h.observer.Publish(nil, &core.Message{Exchange: exchange, Topic: topic, Payload: []byte(text), Retain: retain, Guarantee: core.AtLeastOnce}, nil)
}

// tempt does what ann would learn of if she had what she asked for.
func (h *matrixHouse) tempt() {
	h.tell(core.TopicExchange, "a/b", "secret", false)
	h.tell("x", "k", "secret", false)
	topic, err := names.ParseTopic("dev/new")
	h.must(err)
	batch := &core.Batch{}
	_, _ = h.observer.Call(batch, core.CallSpec{Timeout: time.Second, Answer: func(*core.Batch, *core.Call, core.Reply) {},
		Message: &core.Message{Exchange: core.RPCExchange, Topic: topic, Payload: []byte("secret")}}) // nobody may serve it
	batch.Flush()
	h.rest()
}

// rest lets everything happen that is on its way.
func (h *matrixHouse) rest() {
	synctest.Wait()
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

// state is what is there, in one line.
func (h *matrixHouse) state() string {
	var queues []string
	h.engine.EachQueue(func(k core.QueueKey, _ core.SessionID) {
		if k.Kind == core.NamedQueue {
			queues = append(queues, k.Name)
		}
	})
	slices.Sort(queues)
	s := h.stage.broker.core.Stats()
	return fmt.Sprintf("queues %v exchanges %d ready %d delayed %d retained %d", queues, s.Engine.Exchanges, s.Engine.Ready, s.Engine.Delayed, s.Retained)
}

// ann does a line; what she gets is added to log.
func (h *matrixHouse) ann(protocol, line string, log *strings.Builder) {
	h.Helper()
	words, err := split(line)
	h.must(err)
	if words[0].text == "wait" {
		h.rest()
	} else {
		a, err := h.stage.actor(protocol, words[0].text, "ann")
		h.must(err)
		h.stage.reveal(words[1:])
		if err := a.do(words[0].text, words[1:]); err != nil {
			fmt.Fprintln(log, "not possible:", err)
		}
	}
	h.listen(log)
}

// listen adds what ann got to log.
func (h *matrixHouse) listen(log *strings.Builder) {
	synctest.Wait()
	if a := h.stage.actors["ann"]; a != nil {
		for _, e := range a.inbox().take() {
			fmt.Fprintln(log, h.stage.hide(e.String()))
		}
	}
}

func (h *matrixHouse) leave() {
	h.stage.leave(h.T)
	h.observer.Close(core.CloseNormal)
}
