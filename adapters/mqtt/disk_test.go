package mqtt

import (
	"fmt"
	"strings"
	"testing"

	"entrepot/core/store"
)

// What is the same after a restart in order and after a power cut.
var restartCases = []struct {
	title    string
	versions []int
	steps    string // ---- is the restart
}{
	{"[MQTT-3.1.2-5] [MQTT-3.2.2-3] [MQTT3-3.1.2-4] [MQTT3-3.2.2-2] the session is present", []int{4, 5}, `
a> connect id=a session=100
a< connack ...
----
a> connect id=a session=100
a< connack present ...
a< nothing`},
	{"[MQTT-3.1.2-4] [MQTT3-3.1.2-6] a clean start ends it", []int{4, 5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=t q=1
a< suback id=1 codes=01
----
a> connect id=a clean session=100
a< connack receive=256 aliases=64 maxpacket=16777216
p> connect id=p clean
p< connack ...
p> publish topic=t qos=1 id=1 payload=x
p< puback ...
a< nothing`},
	{"[MQTT-3.1.2-23] [MQTT3-3.1.2-5] messages wait for an absent client, and for one that comes later", []int{4, 5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=t/# q=2
a< suback id=1 codes=02
a> disconnect
a< closed
p> connect id=p clean
p< connack ...
p> publish topic=t/1 qos=1 id=1 payload=one
p< puback id=1
p> publish topic=t/2 qos=2 id=2 payload=two
p< pubrec id=2
p> publish topic=t/3 payload=not-kept
----
p> connect id=p clean
p< connack ...
p> publish topic=t/4 qos=1 id=1 payload=four
p< puback id=1
a> connect id=a session=100
a< connack present ...
a< publish topic=t/1 qos=1 id=1 payload=one
a< publish topic=t/2 qos=2 id=2 payload=two
a< publish topic=t/4 qos=1 id=3 payload=four
a< nothing`},
	{"3.8.3.1 [MQTT-3.8.3-3] [MQTT-3.3.4-3] options of subscriptions: QoS, no local, retain as published, identifier", []int{5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 subid=7 f=t/1 q=1 nl rap f=t/2 q=2
a< suback id=1 codes=0102
a> subscribe id=2 subid=300 f=u/+ q=0
a< suback id=2 codes=00
a> subscribe id=3 f=gone q=1
a< suback id=3 codes=01
a> unsubscribe id=4 f=gone
a< unsuback id=4 codes=00
----
a> connect id=a session=100
a< connack present ...
a> publish topic=t/1 payload=own
a> publish topic=u/1 payload=own
a< publish topic=u/1 subid=300 payload=own
p> connect id=p clean
p< connack ...
p> publish topic=gone qos=1 id=9 payload=x
p< puback id=9 code=10
p> publish topic=t/1 qos=2 id=1 retain payload=x
a< publish topic=t/1 qos=1 id=1 retain subid=7 payload=x
p> publish topic=t/2 qos=2 id=2 retain payload=y
a< publish topic=t/2 qos=2 id=2 subid=7 payload=y
a> subscribe id=5 f=t/# q=0
a< suback id=5 codes=00
a< publish topic=t/1 retain payload=x
a< publish topic=t/2 retain payload=y
p< pubrec id=1
p< pubrec id=2
p> publish topic=t/1 payload=z
a< publish topic=t/1 subid=7 payload=z
a< nothing`},
	{"[MQTT-4.3.3-10] [MQTT-4.3.3-12] [MQTT3-4.3.3-2] a QoS 2 message that comes again is not published again", []int{4, 5}, `
s> connect id=s clean
s< connack ...
s> subscribe id=1 f=t q=0
s< suback id=1 codes=00
a> connect id=a session=100
a< connack ...
a> publish topic=t qos=2 id=5 retain payload=x
a< pubrec id=5
s< publish topic=t payload=x
----
s> connect id=s clean
s< connack ...
s> subscribe id=1 f=t q=0
s< suback id=1 codes=00
s< publish topic=t retain payload=x
a> connect id=a session=100
a< connack present ...
a> publish topic=t qos=2 id=5 dup retain payload=x
a< pubrec id=5
a> pubrel id=5
a< pubcomp id=5
a> publish topic=t qos=2 id=5 payload=y
a< pubrec id=5
s< publish topic=t payload=y
s< nothing`},
	{"[MQTT-4.4.0-1] [MQTT3-4.4.0-1] [MQTT-3.3.1-1] QoS 2 in flight comes again first, in order, under its identifiers", []int{4, 5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=t q=2
a< suback id=1 codes=02
p> connect id=p clean
p< connack ...
p> publish topic=t qos=2 id=1 payload=1
a< publish topic=t qos=2 id=1 payload=1
p> publish topic=t qos=2 id=2 payload=2
a< publish topic=t qos=2 id=2 payload=2
p> publish topic=t qos=2 id=3 payload=3
a< publish topic=t qos=2 id=3 payload=3
a> pubrec id=2
a< pubrel id=2
----
p> connect id=p clean
p< connack ...
p> publish topic=t qos=2 id=1 payload=4
p< pubrec id=1
a> connect id=a session=100
a< connack present ...
a< pubrel id=2
a< publish topic=t qos=2 id=1 dup payload=1
a< publish topic=t qos=2 id=3 dup payload=3
a< publish topic=t qos=2 id=4 payload=4
a> pubrec id=1
a< pubrel id=1
a> pubcomp id=1
a> pubcomp id=2
a< nothing`},
	{"3.3.4 more in flight than the client's Receive Maximum", []int{5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=t q=2
a< suback id=1 codes=02
p> connect id=p clean
p< connack ...
p> publish topic=t qos=2 id=1 payload=1
a< publish topic=t qos=2 id=1 payload=1
p> publish topic=t qos=2 id=2 payload=2
a< publish topic=t qos=2 id=2 payload=2
----
a> connect id=a session=100 receive=1
a< connack present ...
a< publish topic=t qos=2 id=1 dup payload=1
a> pubrec id=1
a< pubrel id=1
a> pubcomp id=1
a< publish topic=t qos=2 id=2 dup payload=2
a< nothing`},
	{"[MQTT-4.8.2-5] a group and its messages outlive the broker where a member lasts", []int{5}, `
m> connect id=m
m< connack ...
m> subscribe id=1 f=$share/g/t q=1
m< suback id=1 codes=01
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=$share/g/t q=2
a< suback id=1 codes=02
m> disconnect
m< closed
p> connect id=p clean
p< connack ...
p> publish topic=t qos=2 id=1 payload=1
a< publish topic=t qos=2 id=1 payload=1
a! drop
p> publish topic=t qos=1 id=2 payload=2
p< pubrec id=1
p< puback id=2
----
a> connect id=a session=100
a< connack present ...
a< publish topic=t qos=2 id=1 dup payload=1
a< publish topic=t qos=1 id=2 payload=2
a> puback id=2
a> pubrec id=1 code=0x80
a< nothing`},
	{"[MQTT-3.1.2-8] [MQTT3-3.1.2-8] the will of a client that was there when the broker stopped", []int{4}, `
s> connect id=s
s< connack
s> subscribe id=1 f=w q=1
s< suback id=1 codes=01
s> disconnect
s< closed
a> connect id=a will=w willpayload=gone willqos=1
a< connack
----
s> connect id=s
s< connack present
s< publish topic=w qos=1 id=1 payload=gone
s< nothing`},
	{"[MQTT-3.1.3-9] a will whose delay goes on while the broker is down", []int{5}, `
s> connect id=s session=100
s< connack ...
s> subscribe id=1 f=w q=1
s< suback id=1 codes=01
a> connect id=a session=100 will=w willpayload=late willqos=1 will.delay=1
a< connack ...
b> connect id=b session=100 will=w willpayload=never willqos=1 will.delay=100
b< connack ...
a! drop
b! drop
sync
----
s> connect id=s session=100
s< connack present ...
s< publish topic=w qos=1 id=1 payload=late
b> connect id=b session=100
b< connack present ...
b> disconnect
b< closed
s< nothing`},
	{"[MQTT-4.1.0-2] a session whose time is over while the broker is down", []int{5}, `
a> connect id=a session=1
a< connack ...
a> subscribe id=1 f=t q=1
a< suback id=1 codes=01
a> disconnect
a< closed
a! drop
sync
wait
----
a> connect id=a session=1
a< connack receive=256 aliases=64 maxpacket=16777216`},
	{"3.14.2.2.2 DISCONNECT ends it", []int{5}, `
a> connect id=a session=100
a< connack ...
a> disconnect session=0
a< closed
a! drop
sync
----
a> connect id=a session=100
a< connack receive=256 aliases=64 maxpacket=16777216`},
	{"3.1.2.11.2 a connection without an expiry takes the session with it", []int{5}, `
a> connect id=a session=100
a< connack ...
a> disconnect
a< closed
a! drop
a> connect id=a
a< connack present ...
----
a> connect id=a session=100
a< connack receive=256 aliases=64 maxpacket=16777216`},
	{"[MQTT-3.1.4-3] [MQTT3-3.1.4-2] after a take-over the session is the newcomer's", []int{5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=t q=2
a< suback id=1 codes=02
p> connect id=p clean
p< connack ...
p> publish topic=t qos=2 id=1 payload=1
a< publish topic=t qos=2 id=1 payload=1
b> connect id=a session=100
b< connack present ...
b< publish topic=t qos=2 id=1 dup payload=1
b> pubrec id=1
b< pubrel id=1
a< disconnect code=8e ...
----
a> connect id=a session=100
a< connack present ...
a< pubrel id=1
a> pubcomp id=1
a< nothing`},
	{"a named queue at QoS 2: its message goes back, the identifier is released", []int{5}, `
a> connect id=a session=100
a< connack ...
a> subscribe id=1 f=$queue/q q=2
a< suback id=1 codes=02
p> connect id=p clean
p< connack ...
p> publish topic=$queue/q qos=2 id=1 payload=1
a< publish topic=$queue/q qos=2 id=1 payload=1
p< pubrec id=1
----
a> connect id=a session=100
a< connack present ...
a< pubrel id=1
a< publish topic=$queue/q qos=2 id=2 payload=1
a> pubrec id=2
a< pubrel id=2
a> pubcomp id=1
a> pubcomp id=2
a< nothing`},
}

func TestRestart(t *testing.T) {
	for _, how := range []string{"restart", "cut"} {
		for _, c := range restartCases {
			for _, version := range c.versions {
				t.Run(fmt.Sprintf("%s v%d %s", how, version, c.title), func(t *testing.T) {
					t.Parallel()
					h := openHarbour(t, testConfig(), store.MemoryDisk())
					h.v = version
					defer func() { h.close() }()
					for _, line := range strings.Split(strings.TrimSpace(c.steps), "\n") {
						if line == "----" {
							line = how
						}
						if version < 5 {
							line = strings.ReplaceAll(line, " session=100", "")
							line = strings.Replace(line, "receive=256 aliases=64 maxpacket=16777216", "", 1)
						}
						if strings.Contains(line, "> connect") {
							line += fmt.Sprintf(" v=%d", version)
						}
						h = h.step(line)
					}
				})
			}
		}
	}
}

// [MQTT-4.4.0-1] QoS 1 in flight comes again under its identifiers when the
// broker stopped in order, or the client was away already; after a power cut
// under a connection it comes with others.
func TestQoS1AfterARestart(t *testing.T) {
	open := func(t *testing.T) *harbour {
		return openHarbour(t, testConfig(), store.MemoryDisk()).steps(
			"a> connect id=a session=100", "a< connack ...", "a> subscribe id=1 f=t q=1", "a< suback id=1 codes=01",
			"p> connect id=p clean", "p< connack ...",
			"p> publish topic=t qos=1 id=1 payload=1", "a< publish topic=t qos=1 id=1 payload=1",
			"p> publish topic=t qos=1 id=2 payload=2", "a< publish topic=t qos=1 id=2 payload=2",
			"a> puback id=1", "p> publish topic=t qos=1 id=3 payload=3", "a< publish topic=t qos=1 id=3 payload=3",
			"p< puback id=1", "p< puback id=2", "p< puback id=3")
	}
	back := []string{"a> connect id=a session=100", "a< connack present ...",
		"a< publish topic=t qos=1 id=2 dup payload=2", "a< publish topic=t qos=1 id=3 dup payload=3",
		"a> puback id=2", "a> puback id=3", "a< nothing", "sync", "restart",
		"a> connect id=a session=100", "a< connack present ...", "a< nothing"}
	t.Run("stopped in order", func(t *testing.T) {
		open(t).steps("restart").steps(back...).close()
	})
	t.Run("client away", func(t *testing.T) {
		open(t).steps("a! drop", "sync", "cut").steps(back...).close()
	})
	t.Run("power cut", func(t *testing.T) {
		open(t).steps("sync", "cut", "a> connect id=a session=100", "a< connack present ...",
			"a< publish topic=t qos=1 id=1 payload=2", "a< publish topic=t qos=1 id=2 payload=3", "a< nothing").close()
	})
}

// A disk that fails (4.13.1, 3.4.2.1): publishers are refused in the terms of
// their version, sessions that last are not opened, others go on; it ends when
// the disk works.
// It shows fault 71.
// It shows fault 106.
func TestFailedDisk(t *testing.T) {
	for _, version := range []int{4, 5} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			h := openHarbour(t, testConfig(), store.MemoryDisk())
			h.v = version
			defer func() { h.close() }()
			v := fmt.Sprint(" v=", version)
			session := map[int]string{5: " session=100"}[version]
			h = h.steps("a> connect id=a"+session+v, "a< connack ...", "a> subscribe id=1 f=t q=2", "a< suback id=1 codes=02",
				"c> connect id=c clean"+v, "c< connack ...", "c> subscribe id=1 f=u", "c< suback id=1 codes=00",
				"p> connect id=p clean"+v, "p< connack ...", "fail", "p> publish topic=t qos=1 id=1 payload=1")
			if version == 5 {
				h = h.steps("p< puback id=1 code=97 ...", "failed", "p> publish topic=t qos=2 id=2 payload=2", "p< pubrec id=2 code=97 ...",
					"b> connect id=b session=100 v=5", "b< connack code=88 ...", "b< closed", "b! drop")
			} else {
				h = h.steps("p< closed", "failed", "p! drop",
					"b> connect id=b v=4", "b< connack code=03", "b< closed", "b! drop")
			}
			h.steps("q> connect id=q clean"+v, "q< connack ...", "q> publish topic=u payload=3", "c< publish topic=u payload=3",
				"heal", "q> publish topic=t qos=2 id=1 payload=4", "q< pubrec id=1", "q> pubrel id=1", "q< pubcomp id=1",
				"b> connect id=b"+session+v, "b< connack ...")
			// What was refused is nowhere, what was held when the disk failed came again.
			for b := h.boats["a"]; ; {
				line := b.next()
				if strings.Contains(line, "payload=2") {
					t.Fatalf("got what was refused: %s", line)
				}
				if strings.Contains(line, "payload=4") {
					return
				}
				if line == "closed" {
					h.steps("a! drop", "a> connect id=a"+session+v, "a< connack present ...")
					b = h.boats["a"]
				}
			}
		})
	}
}

// A release that the disk did not take: the client is told so, and the message
// comes again under its identifier.
func TestRefusedRelease(t *testing.T) {
	for _, filter := range []string{"t", "$share/g/t"} {
		t.Run(strings.ReplaceAll(filter, "/", " "), func(t *testing.T) {
			h := openHarbour(t, testConfig(), store.MemoryDisk())
			h.steps("s> connect id=s session=100", "s< connack ...", "s> subscribe id=1 f="+filter+" q=2", "s< suback id=1 codes=02",
				"p> connect id=p clean", "p< connack ...", "p> publish topic=t qos=2 id=1 payload=x", "p< pubrec id=1",
				"s< publish topic=t qos=2 id=1 payload=x",
				"fail", "s> pubrec id=1", "failed", "s< disconnect code=97 ...", "s< closed", "heal", "s! drop",
				"s> connect id=s session=100", "s< connack present ...", "s< publish topic=t qos=2 id=1 dup payload=x",
				"s> pubrec id=1", "s< pubrel id=1", "s> pubcomp id=1", "s< nothing").close()
		})
	}
}
