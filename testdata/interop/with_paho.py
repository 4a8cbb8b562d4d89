"""Checks with Paho for Python."""

from checks import check, equal, name_of, run
from paho_client import V3, V5, Client, properties

VERSIONS = [(V3,), (V5,)]
PAIRS = [(a, b, q) for a in (V3, V5) for b in (V3, V5) for q in (0, 1, 2)]


@check(*PAIRS)
def live(publisher, subscriber, qos):
    topic = name_of("paho/live", publisher, subscriber, qos)
    with Client(subscriber) as s, Client(publisher) as p:
        equal(s.subscribe(topic + "/#", 2), [2])
        p.publish(topic + "/a", b"\x00\xff21.5", qos)
        m = s.get()
        equal((m.topic, m.payload, m.qos, m.retain), (topic + "/a", b"\x00\xff21.5", qos, False))


@check(*[(v, q) for v in (V3, V5) for q in (0, 1, 2)])
def order(version, qos):
    topic = name_of("paho/order", version, qos)
    with Client(version) as s, Client(version) as p:
        s.subscribe(topic, 2)
        for n in range(500):
            p.paho.publish(topic, b"%d" % n, qos)
        equal(s.payloads(500), [b"%d" % n for n in range(500)])


@check(*VERSIONS)
def retained(version):
    topic = name_of("paho/retained", version)
    with Client(version) as c:
        c.publish(topic, b"kept", 1, retain=True)
        c.subscribe(topic, 1)
        m = c.get()
        equal((m.payload, m.retain, m.qos), (b"kept", True, 1))
        c.publish(topic, b"", 1, retain=True)
        equal(c.get().payload, b"")
        with Client(version) as late:
            late.subscribe(topic, 1)
            late.nothing()


@check(*VERSIONS)
def session(version):
    topic, client = name_of("paho/session", version), name_of("paho-session", version)
    first = Client(version, client, clean=False, expiry=60)
    equal(first.resumed, False)
    first.subscribe(topic, 1)
    first.close()
    with Client(version) as p:
        p.publish(topic, b"1", 1)
        p.publish(topic, b"at most once", 0)
        p.publish(topic, b"2", 1)
    with Client(version, client, clean=False, expiry=60) as second:
        equal(second.resumed, True)
        equal(second.payloads(2), [b"1", b"2"])
        second.nothing()
    with Client(version, client, clean=True) as third:
        equal(third.resumed, False)


@check(*VERSIONS)
def takeover(version):
    client = name_of("paho-takeover", version)
    first = Client(version, client)
    # Paho would connect again and take over in its turn.
    first.paho.reconnect_delay_set(60, 120)
    with Client(version, client) as second:
        first.ended.get(timeout=10)
        second.publish("paho/takeover", b"x", 1)
    first.paho.loop_stop()


@check(*VERSIONS)
def will(version):
    topic = name_of("paho/will", version)
    with Client(version) as s:
        s.subscribe(topic, 1)
        Client(version, will=(topic, b"gone", 1)).vanish()
        m = s.get()
        equal((m.payload, m.qos), (b"gone", 1))
        Client(version, will=(topic, b"gone", 1)).close()
        s.nothing()


@check(*VERSIONS)
def many_topics(version):
    topic = name_of("paho/many", version)
    with Client(version) as s, Client(version) as p:
        equal(s.subscribe([("%s/%d" % (topic, n), n % 2) for n in range(100)]), [n % 2 for n in range(100)])
        for n in range(100):
            p.publish("%s/%d" % (topic, n), b"%d" % n, 1)
        equal([m.qos for m in (s.get() for _ in range(100))], [n % 2 for n in range(100)])


@check()
def properties_travel():
    with Client(V5) as s, Client(V5) as p:
        s.subscribe("paho/properties", 1)
        sent = properties("PUBLISH", ContentType="application/json", CorrelationData=b"\x00id", ResponseTopic="a/b",
                          PayloadFormatIndicator=1, MessageExpiryInterval=60,
                          UserProperty=[("b", "1"), ("a", "2"), ("b", "3")])
        p.publish("paho/properties", b"{}", 1, props=sent)
        got = s.get().properties
        equal((got.ContentType, got.CorrelationData, got.ResponseTopic, got.PayloadFormatIndicator),
              ("application/json", b"\x00id", "a/b", 1))
        equal([u for u in got.UserProperty if not u[0].startswith("x-")], [("b", "1"), ("a", "2"), ("b", "3")])
        if not 58 <= got.MessageExpiryInterval <= 60:
            raise AssertionError("%d s left" % got.MessageExpiryInterval)


@check(*VERSIONS)
def work_queue(version):
    queue = name_of("$queue/paho", version)
    with Client(version) as a, Client(version) as b, Client(version) as p:
        a.subscribe(queue, 1)
        b.subscribe(queue, 1)
        for n in range(10):
            p.publish(queue, b"%d" % n, 1)
        equal(sorted(a.payloads(5) + b.payloads(5)), sorted(b"%d" % n for n in range(10)))


run()
