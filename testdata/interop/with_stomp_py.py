"""Checks with stomp.py."""

import time

from checks import check, equal, eventually, name_of, run
from stomp_client import Client

VERSIONS = [("1.1",), ("1.2",)]
PAIRS = [(a, b) for a in ("1.1", "1.2") for b in ("1.1", "1.2")]


@check(*PAIRS)
def live(publisher, subscriber):
    topic = name_of("/topic/stomp_py.live", publisher.replace(".", ""), subscriber.replace(".", ""))
    with Client(subscriber) as s, Client(publisher) as p:
        s.subscribe(topic + ".*")
        p.send(topic + ".a", "21.5 °C", "text/plain", {"note": "colon: backslash \\ newline \n"})
        f = s.get()
        equal((f.headers["destination"], f.body), (topic + ".a", "21.5 °C"))
        equal((f.headers["content-type"], f.headers["note"]), ("text/plain", "colon: backslash \\ newline \n"))


@check(*VERSIONS)
def binary(version):
    destination = name_of("/queue/stomp_py-binary", version)
    payload = bytes(range(256)) * 40
    with Client(version, binary=True) as c:
        c.send(destination, payload)
        c.send(destination, b"")
        c.subscribe(destination)
        equal(c.bodies(2), [payload, b""])


@check(*VERSIONS)
def ack_modes(version):
    destination = name_of("/queue/stomp_py-ack", version)
    with Client(version) as p, Client(version) as w:
        for n in range(6):
            p.send(destination, str(n))
        w.subscribe(destination, ack="client")
        frames = [w.get() for _ in range(6)]
        w.ack(frames[2])
        w.unsubscribe()
        w.subscribe(destination, ack="client-individual", id="2")
        frames = [w.get() for _ in range(3)]
        equal([f.body for f in frames], ["3", "4", "5"])
        w.ack(frames[1])
        w.unsubscribe(id="2")
        w.subscribe(destination, ack="auto", id="3")
        equal(w.bodies(2), ["3", "5"])
        w.nothing()


@check(*VERSIONS)
def a_lost_worker(version):
    destination = name_of("/queue/stomp_py-lost", version)
    lost = Client(version)
    lost.subscribe(destination, ack="client")
    with Client(version) as p, Client(version) as w:
        for n in range(3):
            p.send(destination, str(n))
        equal(lost.bodies(3), ["0", "1", "2"])
        w.subscribe(destination, ack="client")
        lost.vanish()
        equal(w.bodies(3), ["0", "1", "2"])


@check(*VERSIONS)
def nack(version):
    destination = name_of("/queue/stomp_py-nack", version)
    with Client(version) as w:
        w.send(destination, "again")
        w.subscribe(destination, ack="client-individual")
        w.ack(w.get(), nack=True)
        w.ack(w.get())
        w.nothing()


@check(*VERSIONS)
def transactions(version):
    destination = name_of("/queue/stomp_py-tx", version)
    with Client(version) as c:
        c.subscribe(destination)
        t = c.stomp.begin()
        c.stomp.send(destination, "kept", transaction=t)
        c.nothing()
        c.stomp.commit(t)
        equal(c.get().body, "kept")
        t = c.stomp.begin()
        c.stomp.send(destination, "forgotten", transaction=t)
        c.stomp.abort(t)
        c.nothing()


@check(*VERSIONS)
def retained(version):
    topic = name_of("/topic/stomp_py.retained", version.replace(".", ""))
    with Client(version) as c:
        c.send(topic, "kept", headers={"retain": "true"})
        c.subscribe(topic)
        equal(c.get().body, "kept")


@check(*VERSIONS)
def heart_beats(version):
    with Client(version, heartbeats=(1000, 1000)) as c:
        c.beats.get(timeout=10)
        time.sleep(4)
        if not c.stomp.is_connected():
            raise AssertionError("the connection ended")
        c.beats.get(timeout=10)


@check(*VERSIONS)
def an_error_ends_the_connection(version):
    c = Client(version)
    c.stomp.send("/nowhere/x", "lost", headers={"receipt": "r"})
    f = c.errors.get(timeout=10)
    equal(f.headers.get("receipt-id"), "r")
    eventually("the end of the connection", lambda: not c.stomp.is_connected())


run()
