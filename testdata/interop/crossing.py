"""Checks with clients of one protocol at each end."""

import mosquitto_client as mosquitto
import paho_client as paho
from checks import check, equal, name_of, run
from stomp_client import Client as Stomp

MQTT = (paho.V3, paho.V5)
STOMP = ("1.1", "1.2")
PAIRS = [(m, s) for m in MQTT for s in STOMP]


def names(*words):
    """A topic in both spellings."""
    levels = [name_of(*words).replace(".", ""), "7", "temp"]
    return "/".join(levels), "/topic/" + ".".join(levels)


@check(*PAIRS)
def mqtt_to_stomp(m, s):
    topic, destination = names("mqtt-to-stomp", m, s)
    with Stomp(s, binary=True) as sub, paho.Client(m) as pub:
        sub.subscribe(destination.replace(".7.", ".*."))
        pub.publish(topic, b"\x00\xff21.5", 1)
        f = sub.get()
        equal((f.headers["destination"], f.body), (destination, b"\x00\xff21.5"))


@check(*PAIRS)
def stomp_to_mqtt(m, s):
    topic, destination = names("stomp-to-mqtt", m, s)
    with paho.Client(m) as sub, Stomp(s) as pub:
        sub.subscribe(topic.replace("/7/", "/+/"), 1)
        pub.send(destination, "21.5", headers={"persistent": "true"})
        got = sub.get()
        equal((got.topic, got.payload, got.qos), (topic, b"21.5", 1))


@check(*PAIRS)
def retained_both_ways(m, s):
    topic, destination = names("retained", m, s)
    with paho.Client(m) as c, Stomp(s) as d:
        c.publish(topic, b"from MQTT", 1, retain=True)
        d.subscribe(destination)
        equal(d.get().body, "from MQTT")
        d.send(destination, "from STOMP", headers={"retain": "true"})
        c.subscribe(topic, 1)
        got = c.get()
        equal((got.payload, got.retain), (b"from STOMP", True))


@check(*PAIRS)
def a_shared_work_queue(m, s):
    queue = name_of("orders", m, s)
    with paho.Client(m) as a, Stomp(s) as b, paho.Client(m) as p, Stomp(s) as q:
        a.subscribe("$queue/" + queue, 1)
        b.subscribe("/queue/" + queue, ack="client-individual")
        for n in range(5):
            p.publish("$queue/" + queue, b"%d" % (2 * n), 1)
            q.send("/queue/" + queue, "%d" % (2 * n + 1))
        got = [f.decode() for f in a.payloads(5)]
        for _ in range(5):
            f = b.get()
            b.ack(f)
            got.append(f.body)
        equal(sorted(got), [str(n) for n in range(10)])
        a.nothing()
        b.nothing()


@check(*PAIRS)
def a_lost_stomp_worker(m, s):
    queue = name_of("lost", m, s)
    lost = Stomp(s)
    lost.subscribe("/queue/" + queue, ack="client-individual")
    with paho.Client(m) as p, paho.Client(m) as next_one:
        for n in range(3):
            p.publish("$queue/" + queue, b"%d" % n, 1)
        equal(lost.bodies(3), ["0", "1", "2"])
        next_one.subscribe("$queue/" + queue, 1)
        lost.vanish()
        equal(next_one.payloads(3), [b"0", b"1", b"2"])


@check((mosquitto.V3,), (mosquitto.V5,))
def mosquitto_and_stomp_py(version):
    topic, destination = names("mosquitto", version)
    with mosquitto.Subscriber(version, topic, "-q", "1") as sub, Stomp() as stomp:
        stomp.send(destination, "21.5")
        equal(sub.get(), topic + " 1 0 21.5")
        stomp.subscribe(destination)
        mosquitto.publish(version, topic, b"22.5", "-q", "1")
        equal(stomp.get().body, "22.5")


@check()
def a_request_and_its_answer():
    with paho.Client(paho.V5) as asker, Stomp() as answerer:
        asker.subscribe("answers/me", 1)
        answerer.subscribe("/topic/questions")
        asker.publish("questions", b"?", 1, props=paho.properties(
            "PUBLISH", ResponseTopic="answers/me", CorrelationData=b"q1", ContentType="text/plain"))
        f = answerer.get()
        equal((f.headers["reply-to"], f.headers["content-type"]), ("/topic/answers.me", "text/plain"))
        answerer.send(f.headers["reply-to"], "!", headers={"correlation-id": f.headers["correlation-id"]})
        got = asker.get()
        equal((got.payload, got.properties.CorrelationData), (b"!", b"q1"))


run()
