package mqtt

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"entrepot/core/store"
)

var errBroken error = syscall.EIO

// voyage is a publisher and a subscriber whose sessions last, and their own
// memory, over power cuts and failures of the broker's disk.
type voyage struct {
	*harbour
	pub, sub *mate
	events   int
	stops    []int // at these events something happens
	happens  func(*voyage)
	filter   string
	qos      int
	total    int
	next     int  // payload of the next message
	refused  bool // something was, so that order is the client's own
	log      []string
}

// mate is a client that does as MQTT says, from what it remembers.
type mate struct {
	*boat
	v     *voyage
	name  string
	out   map[int]*cargo // its messages, by identifier
	in    map[int]string // QoS 2 messages of the broker that it has not released
	got   []int
	again []string // of the session before: to be sent
}

// cargo is a message of the client.
type cargo struct {
	payload  int
	released bool // PUBREC came
}

func newVoyage(h *harbour, filter string, qos, total int) *voyage {
	v := &voyage{harbour: h, filter: filter, qos: qos, total: total, next: 1}
	v.pub = &mate{v: v, name: "pub", out: map[int]*cargo{}, in: map[int]string{}}
	v.sub = &mate{v: v, name: "sub", out: map[int]*cargo{}, in: map[int]string{}}
	return v
}

func (m *mate) note(format string, args ...any) {
	m.v.log = append(m.v.log, m.name+" "+fmt.Sprintf(format, args...))
}

func (v *voyage) fail(format string, args ...any) {
	v.Helper()
	v.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(v.log, "\n"))
}

// board connects; the broker has to know the session if old is set.
func (m *mate) board(version int, old bool) {
	v := m.v
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(patience); ; <-retry.C {
		m.boat = v.dial(version)
		line := "connect id=" + m.name + " v=" + strconv.Itoa(version)
		if version == 5 {
			line += " session=1000"
		}
		m.boat.say(line)
		answer := m.boat.next()
		m.note("%s: %s", line, answer)
		switch {
		case strings.HasPrefix(answer, "connack present") && old || strings.HasPrefix(answer, "connack") && !old:
			return
		case time.Now().After(end) || !strings.HasPrefix(answer, "connack code") && answer != "closed":
			v.fail("%s: session present is wrong: %s", m.name, answer)
		}
		m.conn.Close() // the disk does not work
	}
}

// event counts, and lets things happen.
func (v *voyage) event() {
	v.events++
	if slices.Contains(v.stops, v.events) {
		v.log = append(v.log, "-- something happens")
		v.happens(v)
	}
}

func (m *mate) send(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	m.note("> %s", line)
	m.boat.say(line)
	m.v.event()
}

// resume sends what the session before left open ([MQTT-4.4.0-1]).
func (m *mate) resume() {
	m.again = nil
	for id := 1; id < 100; id++ {
		if c := m.out[id]; c != nil && c.released {
			m.again = append(m.again, fmt.Sprintf("pubrel id=%d", id))
		} else if c != nil {
			m.again = append(m.again, fmt.Sprintf("publish topic=t qos=%d dup id=%d payload=%d", m.v.qos, id, c.payload))
		}
	}
	slices.SortStableFunc(m.again, func(a, b string) int { return strings.Compare(b[:4], a[:4]) })
	slices.SortStableFunc(m.again, func(a, b string) int { return m.payloadOf(a) - m.payloadOf(b) })
}

func (m *mate) payloadOf(line string) int {
	_, p, _ := strings.Cut(line, "payload=")
	n, _ := strconv.Atoi(p)
	return n
}

// publish sends new messages under the lowest free identifiers.
func (m *mate) publish(most int) {
	for id := 1; id <= most && m.v.next <= m.v.total; id++ {
		if m.out[id] == nil {
			c := &cargo{payload: m.v.next}
			m.out[id] = c
			m.v.next++
			b := m.boat
			m.send("publish topic=t qos=%d id=%d payload=%d", m.v.qos, id, c.payload)
			if m.boat != b {
				return
			}
		}
	}
}

// hear acts on a packet.
func (m *mate) hear(line string) {
	m.note("< %s", line)
	f := &fields{words(line)}
	id := f.number("id", 0)
	code, refused := f.value("code")
	b := m.boat
	if m.v.event(); m.boat != b {
		return // and the packet, too
	}
	switch f.list[0] {
	case "publish":
		m.take(f, id)
	case "pubrel":
		delete(m.in, id)
		m.send("pubcomp id=%d", id)
	case "puback":
		m.ended(id, refused && code != "10")
	case "pubrec":
		c := m.out[id]
		switch {
		case c == nil:
			m.v.fail("%s: PUBREC for %d", m.name, id)
		case refused && code != "10":
			m.ended(id, true)
		default:
			c.released = true
			m.send("pubrel id=%d", id)
		}
	case "pubcomp":
		m.ended(id, false)
	case "disconnect":
	default:
		m.v.fail("%s got %s", m.name, line)
	}
}

// ended: the identifier is free; a message that was refused is sent anew.
func (m *mate) ended(id int, refused bool) {
	c := m.out[id]
	delete(m.out, id)
	if c != nil && refused {
		m.out[id] = &cargo{payload: c.payload}
		m.v.refused = true
		m.send("publish topic=t qos=%d id=%d payload=%d", m.v.qos, id, c.payload)
	}
}

func (m *mate) take(f *fields, id int) {
	payload, _ := f.value("payload")
	n, _ := strconv.Atoi(payload)
	switch qos := f.number("qos", 0); qos {
	case 1:
		m.got = append(m.got, n)
		m.send("puback id=%d", id)
	case 2:
		if old, known := m.in[id]; known && old != payload {
			m.v.fail("%s: identifier %d is in use for %s, and comes with %s", m.name, id, old, payload)
		} else if !known {
			m.in[id] = payload
			m.got = append(m.got, n)
		}
		m.send("pubrec id=%d", id)
	default:
		m.v.fail("QoS %d", qos)
	}
}

// sail lets both talk until all is said.
func (v *voyage) sail(version, most int) {
	v.sub.board(version, false)
	v.sub.boat.say(fmt.Sprintf("subscribe id=99 f=%s q=%d", v.filter, v.qos))
	v.sub.boat.next()
	v.pub.board(version, false)
	for end := time.Now().Add(patience); ; {
		for len(v.pub.again) > 0 {
			line := v.pub.again[0]
			v.pub.again = v.pub.again[1:]
			v.pub.send("%s", line)
		}
		if v.pub.publish(most); len(v.pub.again) > 0 {
			continue
		}
		if v.next > v.total && len(v.pub.out) == 0 && len(v.sub.in) == 0 && v.all() {
			return
		}
		select {
		case line, ok := <-v.pub.lines:
			v.pub.heard(line, ok, version)
		case line, ok := <-v.sub.lines:
			v.sub.heard(line, ok, version)
		case <-time.After(time.Until(end)):
			v.fail("no end: got %v; publisher %v, subscriber %v", v.sub.got, v.pub.out, v.sub.in)
		}
	}
}

func (m *mate) heard(line string, ok bool, version int) {
	if ok {
		m.hear(line)
		return
	}
	m.note("is cut off")
	m.conn.Close()
	m.board(version, true)
	m.resume()
}

func (v *voyage) all() bool {
	for n := 1; n <= v.total; n++ {
		if !slices.Contains(v.sub.got, n) {
			return false
		}
	}
	return true
}

// arrive checks that nothing was lost and, at QoS 2, that nothing came twice or
// out of order.
func (v *voyage) arrive() {
	v.Helper()
	v.close()
	if v.qos == 1 {
		return // all has come
	}
	if len(v.sub.got) != v.total || v.filter == "t" && !v.refused && !slices.IsSorted(v.sub.got) {
		v.fail("got %v", v.sub.got)
	}
}

// powerCut takes the broker's power away and gives it back.
func powerCut(percent int, seed uint64, synced bool, version int) func(*voyage) {
	return func(v *voyage) {
		if synced {
			if err := v.store.Sync(); err != nil {
				v.Fatal(err)
			}
		}
		seed++
		v.harbour = v.harbour.cut(percent, seed)
		for _, m := range []*mate{v.sub, v.pub} {
			m.conn.Close()
			m.board(version, true)
			m.resume()
		}
	}
}

// [MQTT-4.3.3-2] [MQTT-4.3.3-4] [MQTT-4.4.0-1] [MQTT3-4.4.0-1] power is cut at
// each stage of QoS 2, in both directions, and each identifier is used again at
// once: nothing is lost and nothing comes twice.
// It shows fault 74.
func TestPowerCutAtEachStage(t *testing.T) {
	for _, version := range []int{4, 5} {
		for _, filter := range []string{"t", "$share/g/t"} {
			for _, percent := range []int{0, 50, 100} {
				for _, synced := range []bool{false, true} {
					t.Run(fmt.Sprintf("v%d %s %d%% kept, synced %v", version, strings.ReplaceAll(filter, "/", " "), percent, synced), func(t *testing.T) {
						t.Parallel()
						for stage := 1; stage <= 16; stage++ {
							v := newVoyage(openHarbour(t, testConfig(), store.MemoryDisk()), filter, 2, 2)
							v.stops = []int{stage}
							v.happens = powerCut(percent, uint64(stage), synced, version)
							v.sail(version, 1)
							v.arrive()
						}
					})
				}
			}
		}
	}
}

func rounds(normal, soak int) int {
	if os.Getenv("ENTREPOT_SOAK") == "1" {
		return soak
	}
	return normal
}

// Power is cut again and again at random, with many messages under way.
// It shows faults 69 and 74.
func TestPowerCuts(t *testing.T) {
	for lane := range 4 {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for seed := lane; seed < rounds(40, 2000); seed += 4 {
				rng := rand.New(rand.NewPCG(uint64(seed), 5))
				version := 4 + rng.IntN(2)
				filter := []string{"t", "t", "$share/g/t"}[rng.IntN(3)]
				v := newVoyage(openHarbour(t, testConfig(), store.MemoryDisk()), filter, 1+rng.IntN(2), 30)
				for at := 0; at < 300; {
					at += 1 + rng.IntN(80)
					v.stops = append(v.stops, at)
				}
				v.happens = func(v *voyage) { powerCut(rng.IntN(101), rng.Uint64(), rng.IntN(2) == 0, version)(v) }
				v.log = append(v.log, fmt.Sprint("seed ", seed))
				v.sail(version, 1+rng.IntN(8))
				v.arrive()
			}
		})
	}
}

// The disk fails and works again, again and again: publishers are refused, or
// cut off before MQTT 5, and nothing is lost nor comes twice.
// It shows fault 71.
func TestDiskFailures(t *testing.T) {
	for lane := range 4 {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for seed := lane; seed < rounds(20, 400); seed += 4 {
				rng := rand.New(rand.NewPCG(uint64(seed), 6))
				version := 4 + rng.IntN(2)
				filter := []string{"t", "t", "$share/g/t"}[rng.IntN(3)]
				v := newVoyage(openHarbour(t, testConfig(), store.MemoryDisk()), filter, 2, 20)
				for at := 0; at < 150; {
					at += 10 + rng.IntN(60)
					v.stops = append(v.stops, at)
				}
				v.log = append(v.log, fmt.Sprint("seed ", seed))
				cuts := powerCut(0, uint64(seed), false, version)
				v.happens = func(v *voyage) {
					if rng.IntN(3) == 0 {
						cuts(v)
						return
					}
					v.disk.Fail([]string{"sync", "write"}[rng.IntN(2)], ".log", syscall.EIO)
					d := v.disk
					time.AfterFunc(time.Duration(rng.IntN(10))*time.Millisecond, d.Heal)
				}
				v.sail(version, 1+rng.IntN(4))
				v.disk.Heal()
				v.arrive()
			}
		})
	}
}
