"""Checks with Mosquitto's command-line clients."""

import subprocess

from checks import PATIENCE, check, equal, name_of, run
from mosquitto_client import ADDRESS, V3, V5, Subscriber, clear, publish

VERSIONS = [(V3,), (V5,)]
PAIRS = [(a, b, q) for a in (V3, V5) for b in (V3, V5) for q in (0, 1, 2)]


@check(*PAIRS)
def live(publisher, subscriber, qos):
    topic = name_of("mosquitto/live", publisher, subscriber, qos)
    with Subscriber(subscriber, topic + "/+", "-q", "2") as s:
        publish(publisher, topic + "/a", b"21.5", "-q", str(qos))
        equal(s.get(), "%s/a %d 0 21.5" % (topic, qos))


@check(*VERSIONS)
def retained(version):
    topic = name_of("mosquitto/retained", version)
    publish(version, topic, b"kept", "-r", "-q", "1")
    with Subscriber(version, topic) as s:
        equal(s.get(), "%s 0 1 kept" % topic)
    clear(version, topic)
    with Subscriber(version, topic) as s:
        s.nothing()


@check(*VERSIONS)
def binary(version):
    topic = name_of("mosquitto/binary", version)
    payload = bytes(range(256)) * 40
    publish(version, topic, payload, "-r", "-q", "1")
    got = subprocess.run(["mosquitto_sub", *ADDRESS, "-V", version, "-t", topic, "-C", "1", "-N"], check=True,
                         stdout=subprocess.PIPE, timeout=PATIENCE).stdout
    equal(got, payload)


@check(*VERSIONS)
def large(version):
    topic = name_of("mosquitto/large", version)
    payload = b"x" * (3 << 20)
    with Subscriber(version, topic, form="%l") as s:
        publish(version, topic, payload, "-q", "1")
        equal(s.get(), str(len(payload)))


@check(*VERSIONS)
def will(version):
    topic = name_of("mosquitto/will", version)
    with Subscriber(version, topic) as s:
        lost = Subscriber(version, topic + "/unused", "--will-topic", topic, "--will-payload", "gone")
        lost.kill()
        equal(s.get(), topic + " 0 0 gone")
        polite = Subscriber(version, topic + "/unused", "--will-topic", topic, "--will-payload", "gone")
        polite.stop()
        if version == V5:  # it asks for its will: reason 0x04
            equal(s.get(), topic + " 0 0 gone")
        s.nothing()


@check(*VERSIONS)
def session(version):
    topic, client = name_of("mosquitto/session", version), name_of("mosquitto-session", version)
    expiry = ["-x", "60"] if version == V5 else []
    args = ["-c", "-i", client, "-q", "1", *expiry]
    Subscriber(version, topic, *args).stop()
    publish(version, topic, b"meanwhile", "-q", "1")
    with Subscriber(version, topic, *args) as s:
        equal(s.get(), topic + " 1 0 meanwhile")


@check()
def properties():
    topic = "mosquitto/properties"
    with Subscriber(V5, topic, form="%C %D %R %P %p") as s:
        publish(V5, topic, b"{}", "-D", "publish", "content-type", "application/json",
                "-D", "publish", "correlation-data", "id7", "-D", "publish", "response-topic", "back/here",
                "-D", "publish", "user-property", "colour", "red")
        got = s.get()
        for part in ("application/json id7 back/here ", "colour:red", " {}"):
            if part not in got:
                raise AssertionError("%r is not in %r" % (part, got))


@check(*VERSIONS)
def shared_queue(version):
    queue = name_of("$queue/mosquitto", version)
    with Subscriber(version, queue, "-q", "1") as a, Subscriber(version, queue, "-q", "1") as b:
        for n in range(4):
            publish(version, queue, b"%d" % n, "-q", "1")
        got = sorted([a.get(), a.get(), b.get(), b.get()])
        equal(got, ["%s 1 0 %d" % (queue, n) for n in range(4)])


@check()
def shared_subscription():
    with Subscriber(V5, "$share/g/mosquitto/shared/#", "-q", "1") as a, \
            Subscriber(V5, "$share/g/mosquitto/shared/#", "-q", "1") as b:
        for n in range(4):
            publish(V5, "mosquitto/shared/x", b"%d" % n, "-q", "1")
        equal(sorted([a.get(), a.get(), b.get(), b.get()]), ["mosquitto/shared/x 1 0 %d" % n for n in range(4)])


run()
