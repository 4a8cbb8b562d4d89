package mqtt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"entrepot/core"
	"entrepot/routing"
)

// FuzzSession lets clients do what the input says, valid and invalid, and holds
// what the broker sends against a model of their sessions:
//
//   - every QoS 1 and 2 message reaches each session that had a matching
//     subscription, QoS 2 once, in the order of publishing;
//   - a packet identifier in use comes again only with DUP, on a later
//     connection, with the same message;
//   - no more messages are out than the client's Receive Maximum;
//   - each publish is confirmed, and Session Present is right.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 2, 17, 4, 40, 41, 42, 43, 5, 6, 1, 0, 7})
	f.Add([]byte("connect, subscribe, publish, drop, connect again, acknowledge"))
	f.Add([]byte{0, 3, 0xff, 0x10, 9, 9, 9, 2, 1, 0, 4, 4, 4, 8, 8, 8, 200, 201, 202, 203, 204, 205})
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 400 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := newModelTheatre(t)
			defer s.end()
			w := &world{theatre: s, input: input}
			for i := range 3 {
				w.actors = append(w.actors, &actor{world: w, name: fmt.Sprintf("c%d", i), version: 4 + i%2})
			}
			w.play()
		})
	})
}

// newModelTheatre lets clients take over from each other as often as they like.
func newModelTheatre(t *testing.T) *theatre {
	set := core.DefaultConfig()
	set.Clients.TakeOvers = 0
	return newTheatreWith(t, testConfig(), set)
}

// TestSessionModel plays long random inputs.
func TestSessionModel(t *testing.T) {
	seed := uint64(1)
	for round := range 60 {
		input := make([]byte, 400)
		for i := range input {
			seed = seed*6364136223846793005 + 1442695040888963407
			input[i] = byte(seed >> 33)
		}
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newModelTheatre(t)
				defer s.end()
				w := &world{theatre: s, input: input}
				for i := range 3 {
					w.actors = append(w.actors, &actor{world: w, name: fmt.Sprintf("c%d", i), version: 4 + i%2})
				}
				w.play()
			})
		})
	}
}

type world struct {
	*theatre
	input  []byte
	actors []*actor
	count  int // messages published
	done   []string
}

// due is a message that a session has to get.
type due struct {
	n, qos int
	got    bool
}

// actor is a client and the model of its session.
type actor struct {
	world   *world
	name    string
	version int
	online  bool
	present bool // the broker has a session
	clean   bool // it ends with the connection
	subs    map[string]int
	dues    []due
	last    int            // the newest message that came for the first time
	window  int            // on this connection
	sent    int            // on this connection, not confirmed
	held    map[int]got    // not confirmed by this client, by identifier
	open    map[int]string // own QoS 2 messages that are not released: payload
}

type got struct {
	n, qos   int
	received bool    // PUBREC is out
	by       *client // the connection that it came by
}

func (w *world) next() int {
	if len(w.input) == 0 {
		return -1
	}
	b := w.input[0]
	w.input = w.input[1:]
	return int(b)
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	tail := w.done[max(0, len(w.done)-60):]
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(tail, "\n"))
}

func (w *world) play() {
	for {
		b := w.next()
		if b < 0 {
			break
		}
		a := w.actors[b%3]
		if b/3%12 == 0 || !a.online {
			a.connect(w.next())
		} else {
			a.act(b/3%12, w.next())
		}
		w.listen()
	}
	for _, a := range w.actors {
		if a.present {
			a.connectAs(false, 1000)
			w.listen()
		}
	}
	for range 50 {
		for _, a := range w.actors {
			a.confirmAll()
		}
		w.listen()
	}
	for _, a := range w.actors {
		for _, d := range a.dues {
			if !d.got && d.qos > 0 {
				w.fail("%s never got message %d", a.name, d.n)
			}
		}
		if len(a.held) > 0 {
			w.fail("%s still holds %v", a.name, a.held)
		}
	}
}

func (a *actor) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	a.world.done = append(a.world.done, a.name+"> "+line)
	a.world.client(a.name).say(line)
}

func (a *actor) connect(b int) { a.connectAs(b%4 == 0, []int{1, 2, 3, 1000}[max(b, 0)/4%4]) }

// connectAs opens a connection, also while another is open: a take-over.
func (a *actor) connectAs(clean bool, window int) {
	w := a.world
	if old := w.clients[a.name]; old != nil {
		delete(w.clients, a.name)
		defer old.conn.Close()
		if !a.online {
			old.conn.Close()
			synctest.Wait()
		}
	}
	line, want := "connect id="+a.name+" v="+strconv.Itoa(a.version), "connack"
	if clean {
		line += " clean"
	}
	a.window = 1024
	if a.version == 5 {
		line += " session=1000 receive=" + strconv.Itoa(window)
		a.window = window
	}
	if a.present && !clean && !a.clean {
		want = "connack present"
	} else {
		a.subs, a.dues, a.held, a.open, a.last = map[string]int{}, nil, map[int]got{}, map[int]string{}, 0
	}
	a.say("%s", line)
	a.online, a.present, a.clean, a.sent = true, true, clean && a.version == 4, 0
	synctest.Wait()
	if problem := w.client(a.name).expect(want + " ..."); problem != "" && !strings.HasPrefix(problem, "got: "+want+" ") {
		w.fail("%s wants %s: %s", a.name, want, problem)
	}
}

// gone is the model of a lost connection.
func (a *actor) gone() {
	a.online = false
	if a.clean {
		a.present, a.dues, a.held = false, nil, nil
	}
	// QoS 0 does not wait for anybody.
	a.dues = slices.DeleteFunc(a.dues, func(d due) bool { return d.qos == 0 })
}

func (a *actor) act(what, b int) {
	w := a.world
	switch what {
	case 1: // the connection breaks
		w.client(a.name).conn.Close()
		synctest.Wait()
		a.gone()
	case 2, 3:
		a.subscribe(max(b, 0))
	case 4:
		filter := modelFilters[max(b, 0)%len(modelFilters)]
		a.say("unsubscribe id=7 f=%s", filter)
		delete(a.subs, filter)
	case 5, 6, 7, 8:
		a.publish(max(b, 0))
	case 9:
		a.confirmOne(max(b, 0))
	case 10:
		a.release()
	case 11:
		a.misbehave(max(b, 0))
	}
}

var modelFilters = []string{"t/0", "t/1", "t/+", "t/#", "#"}

func (a *actor) subscribe(b int) {
	filter, qos := modelFilters[b%len(modelFilters)], b/5%3
	a.say("subscribe id=8 f=%s q=%d", filter, qos)
	a.subs[filter] = qos
}

// publish sends a message to a topic, or one that is open again.
func (a *actor) publish(b int) {
	w := a.world
	qos, topic := b%3, fmt.Sprintf("t/%d", b/3%3)
	if qos == 2 && len(a.open) > 0 && b/9%3 == 0 {
		for id := range 10 {
			if payload, ok := a.open[id]; ok {
				a.say("publish topic=%s qos=2 dup id=%d payload=%s", topic, id, payload)
				return
			}
		}
	}
	w.count++
	for _, to := range w.actors {
		to.expect(topic, w.count, qos)
	}
	payload := strconv.Itoa(w.count)
	switch qos {
	case 0:
		a.say("publish topic=%s payload=%s", topic, payload)
	case 1:
		a.say("publish topic=%s qos=1 id=9 payload=%s", topic, payload)
	case 2:
		id := 1
		for ; a.open[id] != ""; id++ {
		}
		a.open[id] = payload
		a.say("publish topic=%s qos=2 id=%d payload=%s", topic, id, payload)
	}
}

// expect notes that a message has to come.
func (a *actor) expect(topicName string, n, qos int) {
	if !a.present {
		return
	}
	best := -1
	parsed, _ := routing.ParseTopic(topicName)
	for filter, granted := range a.subs {
		f, _ := routing.ParseFilter(filter)
		if f.Match(parsed) {
			best = max(best, min(qos, granted))
		}
	}
	if best > 0 || best == 0 && a.online {
		a.dues = append(a.dues, due{n: n, qos: best})
	}
}

func (a *actor) ids() []int {
	var list []int
	for id := range a.held {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// confirmOne sends the next acknowledgement for one message.
func (a *actor) confirmOne(b int) {
	ids := a.ids()
	if len(ids) == 0 {
		return
	}
	a.confirm(ids[b%len(ids)])
}

func (a *actor) confirmAll() {
	for _, id := range a.ids() {
		a.confirm(id)
	}
}

func (a *actor) confirm(id int) {
	g := a.held[id]
	switch {
	case !a.online || g.by != a.connection():
	case g.qos == 1:
		a.say("puback id=%d", id)
		delete(a.held, id)
		a.sent--
	case !g.received:
		g.received = true
		a.held[id] = g
		a.say("pubrec id=%d", id)
	}
}

// connection is what the client is connected by.
func (a *actor) connection() *client { return a.world.clients[a.name] }

// release ends one of the client's own QoS 2 messages.
func (a *actor) release() {
	for id := range 20 {
		if a.open[id] != "" {
			a.say("pubrel id=%d", id)
			delete(a.open, id)
			return
		}
	}
}

// misbehave ends the connection by an error.
func (a *actor) misbehave(b int) {
	a.say("%s", []string{"hex 00 00", "hex c1 00", "hex 30 ff ff ff ff ff", "publish topic=a/# payload=x", "subscribe id=0 f=t",
		"hex 82 02 00 01", "connect id=" + a.name, "hex 36 05 00 01 74 00 01", "hex f0 00"}[b%9])
	synctest.Wait()
	c := a.world.client(a.name)
	c.mu.Lock()
	closed := c.err != nil
	c.mu.Unlock()
	if !closed {
		a.world.fail("%s was not closed", a.name)
	}
	a.gone()
}

// listen takes what came for every client.
func (w *world) listen() {
	synctest.Wait()
	for again := true; again; {
		again = false
		for _, a := range w.actors {
			if w.clients[a.name] == nil {
				continue
			}
			for _, line := range w.drain(a.name, a.version) {
				again = true
				w.done = append(w.done, a.name+"< "+line)
				if a.online {
					a.hear(line)
				}
			}
		}
		synctest.Wait()
	}
}

func (a *actor) hear(line string) {
	f := &fields{words(line)}
	id := f.number("id", 0)
	switch f.list[0] {
	case "publish":
		a.take(f, id)
	case "pubrel":
		if g, ok := a.held[id]; ok {
			if !g.received {
				a.world.fail("%s got PUBREL without PUBREC: %s", a.name, line)
			}
			delete(a.held, id)
			a.sent = max(0, a.sent-1)
		}
		a.say("pubcomp id=%d", id)
	case "puback", "pubrec", "pubcomp", "suback", "unsuback":
	default:
		a.world.fail("%s got %s", a.name, line)
	}
}

// take checks a delivery.
func (a *actor) take(f *fields, id int) {
	w := a.world
	payload, _ := f.value("payload")
	n, _ := strconv.Atoi(payload)
	qos, dup := f.number("qos", 0), f.flag("dup")
	i := slices.IndexFunc(a.dues, func(d due) bool { return d.n == n })
	if i < 0 {
		w.fail("%s got message %d, which is not for it", a.name, n)
	}
	d := &a.dues[i]
	if qos != d.qos {
		w.fail("%s got message %d at QoS %d, not %d", a.name, n, qos, d.qos)
	}
	old, known := a.held[id]
	switch {
	case qos == 0:
	case dup && (!known || old.n != n || old.by == a.connection() || old.received):
		w.fail("%s got DUP of message %d out of place: %+v", a.name, n, old)
	case !dup && known:
		w.fail("%s got message %d with identifier %d, which is in use for %d", a.name, n, id, old.n)
	}
	if !dup {
		if d.got {
			w.fail("%s got message %d twice", a.name, n)
		}
		if n < a.last {
			w.fail("%s got message %d after %d", a.name, n, a.last)
		}
		a.last = n
	}
	d.got = true
	if qos > 0 {
		a.held[id] = got{n: n, qos: qos, by: a.connection()}
		if a.sent++; a.sent > a.window {
			w.fail("%s has %d messages out, window %d", a.name, a.sent, a.window)
		}
	}
}
