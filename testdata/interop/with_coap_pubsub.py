"""Each row of draft-ietf-core-coap-pubsub-21's tables with libcoap's client:
discovery, collection, topic, topic-data."""

import re
import time

import coap_client as coap
from checks import check, equal, eventually, name_of, run

NAME, DATA, TYPE, FORMAT, TOPIC_TYPE, EXPIRES, MOST, CHECK, INITIAL = range(9)
TOPIC, KEYS, JSON, TEXT = 606, 60, 50, 0  # content formats


class Epoch(int):
    """Seconds since 1970, with CBOR's tag 1."""


def head(major, n):
    for code, size in (24, 1), (25, 2), (26, 4), (27, 8):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << 8 * size:
            return bytes([major << 5 | code]) + n.to_bytes(size, "big")


def encode(v):
    if isinstance(v, Epoch):
        return b"\xc1" + encode(int(v))
    if isinstance(v, int):
        return head(0, v)
    if isinstance(v, bytes):
        return head(2, len(v)) + v
    if isinstance(v, str):
        return head(3, len(v.encode())) + v.encode()
    if isinstance(v, list):
        return head(4, len(v)) + b"".join(map(encode, v))
    return head(5, len(v)) + b"".join(encode(x) for pair in v.items() for x in pair)


def decode(b):
    v, rest = item(b)
    equal(rest, b"")
    return v


def item(b):
    major, n, b = b[0] >> 5, b[0] & 31, b[1:]
    if n >= 24:
        size = 1 << n - 24
        n, b = int.from_bytes(b[:size], "big"), b[size:]
    if major == 0:
        return n, b
    if major in (2, 3):
        return (b[:n] if major == 2 else b[:n].decode()), b[n:]
    if major == 6:
        v, b = item(b)
        return Epoch(v), b
    equal(major, 5)
    pairs = {}
    for _ in range(n):
        k, b = item(b)
        pairs[k], b = item(b)
    return pairs, b


def refused(answer):
    """4.xx with a sentence, which the client logs."""
    equal((answer.code[0], bool(re.search(r"c:4\.\d\d .*:: '.+'", answer.log))), ("4", True))


def ask(method, path, value=None, kind=TOPIC):
    return coap.ask(method, path, None if value is None else encode(value), kind)


def create(name, **more):
    """Makes a topic and returns its path and that of its data. One of an earlier
    run goes first."""
    coap.ask("delete", "/ps/" + name)
    properties = {NAME: name, TYPE: "core.ps.data"}
    properties.update({globals()[k]: v for k, v in more.items()})
    made = ask("post", "/ps", properties)
    equal(made.code, "2.01")
    return made.location(), decode(made.payload)[DATA]


# Discovery


@check()
def discovery():
    topic, data = create(name_of("ps-discovery"))
    coap.ask("put", data, b"1", TEXT)
    for query, link in ("core.ps", b"</ps>"), ("core.ps.coll", b"</ps>"), ("core.ps.conf", b"<%s>" % topic.encode()), ("core.ps.data", b"<%s>" % data.encode()):
        got = coap.ask("get", "/.well-known/core?rt=" + query)
        equal((got.code, "Content-Format:application/link-format" in got.log, link in got.payload), ("2.05", True, True))


# Collection


@check()
def collection_get():
    topic, data = create(name_of("ps-list"))
    got = coap.ask("get", "/ps")
    equal((got.code, "Content-Format:application/link-format" in got.log, b"<%s>" % topic.encode() in got.payload), ("2.05", True, True))
    got = coap.ask("get", "/ps?rt=core.ps.data")
    equal((got.code, b"<%s>" % data.encode() in got.payload, topic.encode() in got.payload), ("2.05", True, False))


@check()
def collection_fetch():
    a, _ = create(name_of("ps-fetch", 1), TOPIC_TYPE="ps-fetch", MOST=1)
    b, _ = create(name_of("ps-fetch", 2), TOPIC_TYPE="ps-fetch", MOST=2)
    for wanted, links in ({TOPIC_TYPE: "ps-fetch"}, {a, b}), ({TOPIC_TYPE: "ps-fetch", MOST: 2}, {b}), ({TOPIC_TYPE: "none"}, set()):
        got = ask("fetch", "/ps", wanted)
        equal(got.code, "2.05")
        equal({x.split(b">")[0][1:].decode() for x in got.payload.split(b",") if x}, links)
    equal(ask("fetch", "/ps", {TOPIC_TYPE: "ps-fetch"}, JSON).code, "4.15")
    equal(coap.ask("fetch", "/ps", b"\xa1", TOPIC).code, "4.00")


@check()
def collection_post():
    coap.ask("delete", "/ps/ps-post")
    made = ask("post", "/ps", {NAME: name_of("ps-post"), TYPE: "core.ps.data"})
    equal((made.code, made.location()), ("2.01", "/ps/ps-post"))
    equal(decode(made.payload), {NAME: "ps-post", DATA: "/t/ps-post", TYPE: "core.ps.data"})
    equal(coap.ask("get", "/t/ps-post").code, "4.04")  # half created
    _, data = create("ps-post-whole", FORMAT=JSON, INITIAL=b"{}")
    equal(coap.ask("get", data).payload, b"{}")  # fully created


REFUSED = {
    "no name": {TYPE: "core.ps.data"},
    "no type": {NAME: "ps-refused"},
    "a name that is none": {NAME: 1, TYPE: "core.ps.data"},
    "an unknown key": {NAME: "ps-refused", TYPE: "core.ps.data", 99: 1},
    "a name in use": {NAME: "ps-in-use", TYPE: "core.ps.data"},
    "a name with a wildcard": {NAME: "a/#", TYPE: "core.ps.data"},
    "initialize without a format": {NAME: "ps-refused", TYPE: "core.ps.data", INITIAL: b"x"},
    "no check time": {NAME: "ps-refused", TYPE: "core.ps.data", CHECK: 0},
    "data elsewhere": {NAME: "ps-refused", DATA: "/elsewhere", TYPE: "core.ps.data"},
}


@check(*REFUSED)
def collection_post_refused(what):
    if what == "a name in use":
        create("ps-in-use")
    refused(ask("post", "/ps", REFUSED[what]))


@check()
def collection_post_of_something_else():
    equal(coap.ask("post", "/ps", b"\xff", TOPIC).code, "4.00")
    equal(coap.ask("post", "/ps", b"{}", JSON).code, "4.15")


# Topic


@check()
def topic_get():
    topic, data = create(name_of("ps-get"), FORMAT=JSON, TOPIC_TYPE="t", MOST=3, CHECK=60)
    got = coap.ask("get", topic)
    equal(got.code, "2.05")
    equal(decode(got.payload), {NAME: "ps-get", DATA: data, TYPE: "core.ps.data", FORMAT: JSON, TOPIC_TYPE: "t", MOST: 3, CHECK: 60})
    equal(coap.ask("get", "/ps/ps-none").code, "4.04")


@check()
def topic_of_another_protocol():
    coap.ask("put", "/t/" + name_of("ps-foreign"), b"1", TEXT)
    equal(decode(coap.ask("get", "/ps/ps-foreign").payload), {NAME: "ps-foreign", DATA: "/t/ps-foreign", TYPE: "core.ps.data"})
    equal(ask("ipatch", "/ps/ps-foreign", {MOST: 1}).code, "4.03")
    equal(ask("post", "/ps/ps-foreign", {MOST: 1}).code, "4.03")


@check()
def topic_fetch():
    topic, _ = create(name_of("ps-some"), FORMAT=JSON)
    got = ask("fetch", topic, [NAME, FORMAT, TOPIC_TYPE], KEYS)
    equal((got.code, decode(got.payload)), ("2.05", {NAME: "ps-some", FORMAT: JSON}))
    equal(coap.ask("fetch", topic, b"\x82\x00", KEYS).code, "4.00")
    equal(ask("fetch", topic, {NAME: "ps-some"}, JSON).code, "4.15")


@check("post", "ipatch")
def topic_changed(method):
    name = name_of("ps-change", method)
    topic, data = create(name, FORMAT=JSON, TOPIC_TYPE="old")
    got = ask(method, topic, {TOPIC_TYPE: "new"})
    equal(got.code, "2.04")
    want = {NAME: name, DATA: data, TYPE: "core.ps.data", TOPIC_TYPE: "new"}
    if method == "ipatch":  # the rest stays
        want[FORMAT] = JSON
    equal(decode(got.payload), want)
    equal(decode(coap.ask("get", topic).payload), want)
    for immutable in {NAME: "other"}, {DATA: "/t/other"}, {TYPE: "other"}:
        refused(ask(method, topic, immutable))
    equal(ask(method, topic, {NAME: name, DATA: data, TYPE: "core.ps.data"}).code, "2.04")
    equal(ask(method, "/ps/ps-none", {MOST: 1}).code, "4.04")
    refused(coap.ask(method, topic, b"\xa1", TOPIC))


@check()
def topic_deleted():
    topic, data = create(name_of("ps-delete"))
    coap.ask("put", data, b"1", TEXT)
    with coap.Watcher(data) as w:
        equal(w.next(), ("2.05", True, "1"))
        equal(coap.ask("delete", topic).code, "2.02")
        equal(w.next(), ("4.04", False, ""))
    equal(coap.ask("get", data).code, "4.04")
    equal(coap.ask("get", topic).code, "4.04")
    equal(coap.ask("delete", topic).code, "4.04")


@check("post", "ipatch")
def max_subscribers_lowered(method):
    topic, data = create(name_of("ps-lower", method), MOST=2)
    coap.ask("put", data, b"1", TEXT)
    with coap.Watcher(data) as first:
        equal(first.next(), ("2.05", True, "1"))
        with coap.Watcher(data) as second:
            equal(second.next(), ("2.05", True, "1"))
            equal(ask(method, topic, {MOST: 1}).code, "2.04")
            equal(second.next(), ("4.04", False, ""))
            coap.ask("put", data, b"2", TEXT)
            equal(first.next(), ("2.05", True, "2"))


@check()
def expiration_date():
    topic, data = create(name_of("ps-expire"), EXPIRES=Epoch(time.time() + 3))
    coap.ask("put", data, b"1", TEXT)
    with coap.Watcher(data) as w:
        equal(w.next(), ("2.05", True, "1"))
        equal(w.next(), ("4.04", False, ""))
    eventually("the topic's end", lambda: coap.ask("get", topic).code == "4.04")


@check()
def observer_check():
    _, data = create(name_of("ps-check"), CHECK=10)
    coap.ask("put", data, b"1", TEXT)
    with coap.Watcher(data) as w:
        equal(w.next(), ("2.05", True, "1"))
        equal(w.next(30), ("2.05", True, "1"))  # nothing is new
        equal(w.kinds(), ["ACK", "CON"])


# Topic-data


@check()
def topic_data():
    topic, data = create(name_of("ps-data"))
    for method in "get", "delete":  # half created
        equal(coap.ask(method, data).code, "4.04")
    with coap.Watcher(data) as w:
        equal(w.next()[:2], ("4.04", False))
    equal(coap.ask("put", data, b"1", TEXT).code, "2.01")
    equal(coap.ask("put", data, b"2", TEXT).code, "2.04")  # fully created
    got = coap.ask("get", data)
    equal((got.code, got.payload, "Content-Format:text/plain" in got.log), ("2.05", b"2", True))
    with coap.Watcher(data) as w:
        equal(w.next(), ("2.05", True, "2"))
        coap.ask("put", data, b"3", TEXT)
        equal(w.next(), ("2.05", True, "3"))
        equal(coap.ask("delete", data).code, "2.02")
        equal(w.next(), ("4.04", False, ""))
    equal(coap.ask("get", data).code, "4.04")  # half created
    equal(coap.ask("get", topic).code, "2.05")
    equal(coap.ask("put", data, b"4", TEXT).code, "2.01")


@check()
def initialize_is_applied_once():
    _, data = create(name_of("ps-initialize"), FORMAT=JSON, INITIAL=b"[]")
    equal(coap.ask("get", data).payload, b"[]")
    equal(coap.ask("put", data, b"{}", JSON).code, "2.04")
    equal(coap.ask("delete", data).code, "2.02")
    equal(coap.ask("get", data).code, "4.04")
    equal(coap.ask("put", data, b"{}", JSON).code, "2.01")


@check()
def another_format():
    _, data = create(name_of("ps-format"), FORMAT=JSON)
    equal(coap.ask("put", data, b"1", TEXT).code, "4.15")
    equal(coap.ask("put", data, b"1", JSON).code, "2.01")


@check()
def max_subscribers_reached():
    _, data = create(name_of("ps-most"), MOST=1)
    coap.ask("put", data, b"1", TEXT)
    with coap.Watcher(data) as first:
        equal(first.next(), ("2.05", True, "1"))
        with coap.Watcher(data) as second:
            equal(second.next(), ("2.05", False, "1"))


@check()
def an_observation_is_ended():
    _, data = create(name_of("ps-ended"), MOST=1)
    coap.ask("put", data, b"1", TEXT)
    with coap.Watcher(data, seconds=1) as w:  # then it sends Observe 1, and does not wait for the answer
        equal(w.next(), ("2.05", True, "1"))
        w.process.wait()
        w.reader.join()
        equal(w.asked()[-1], 1)
    with coap.Watcher(data) as w:  # there is room for another one
        equal(w.next(), ("2.05", True, "1"))


run()
