"""Checks with libcoap's client, alone and with an MQTT device beside it."""

import os

import coap_client as coap
import paho_client as paho
from checks import check, equal, name_of, run


@check()
def publish_and_read():
    path = "/t/" + name_of("coap-publish") + "/temp"
    equal(coap.ask("put", path, b"21.5", 0).code, "2.01")
    equal(coap.ask("put", path, b"21.6", 0).code, "2.04")
    got = coap.ask("get", path)
    equal((got.code, got.payload), ("2.05", b"21.6"))
    equal(coap.ask("delete", path).code, "2.02")
    equal(coap.ask("get", path).code, "4.04")


@check()
def not_confirmable():
    path = "/t/" + name_of("coap-non")
    coap.ask("put", path, b"1", None, "-N")
    equal(coap.ask("get", path, None, None, "-N").payload, b"1")


@check()
def blocks_of_200_kb_both_ways():
    path, body = "/t/" + name_of("coap-blocks"), os.urandom(200_000)
    for size in (1024, 256):
        equal(coap.ask("put", path, body, 42, "-b", str(size)).code, "2.01" if size == 1024 else "2.04")
        equal(coap.ask("get", path, None, None, "-b", str(size)).payload, body)


@check(paho.V3, paho.V5)
def observe_an_mqtt_device(version):
    name = name_of("coap-observe", version)
    with paho.Client(version) as device:
        device.publish(name + "/temp", b"1", 1, retain=True)
        with coap.Observer("/t/" + name + "/temp") as observer:
            equal(observer.get(), "1")
            for n in range(2, 6):
                device.publish(name + "/temp", b"%d" % n, 1, retain=True)
                equal(observer.get(), str(n))


@check(paho.V3, paho.V5)
def an_mqtt_client_hears_a_coap_device(version):
    name = name_of("coap-to-mqtt", version)
    with paho.Client(version) as c:
        c.subscribe(name + "/+", 1)
        equal(coap.ask("post", "/t/" + name + "/temp", b"\x00\xff", 42).code, "2.04")
        got = c.get()
        equal((got.topic, got.payload, got.qos), (name + "/temp", b"\x00\xff", 1))
        if version == paho.V5:
            equal(got.properties.ContentType, "application/octet-stream")


@check()
def a_worker_at_a_queue():
    queue = "/q/" + name_of("coap-orders")
    for n in range(3):
        equal(coap.ask("post", queue, b"order %d" % n).code, "2.04")
    for n in range(3):
        got = coap.ask("post", queue + "/take")
        equal((got.code, got.payload), ("2.01", b"order %d" % n))
        if n == 1:  # given back, and taken again
            equal(coap.ask("delete", got.location() + "?requeue=1").code, "2.02")
            got = coap.ask("post", queue + "/take?lease=30000")
            equal(got.payload, b"order 1")
            equal(coap.ask("put", got.location()).code, "2.04")
        equal(coap.ask("delete", got.location()).code, "2.02")
    equal(coap.ask("post", queue + "/take").code, "4.04")


@check()
def a_queue_shared_with_mqtt():
    name = name_of("coap-mqtt-queue")
    with paho.Client(paho.V5) as c:
        c.subscribe("$queue/" + name, 1)
        equal(coap.ask("post", "/q/" + name, b"work", 0).code, "2.04")
        equal(c.get().payload, b"work")


@check()
def discovery():
    coap.ask("put", "/t/" + name_of("coap-discovery"), b"1", 0)
    got = coap.ask("get", "/.well-known/core")
    equal(got.code, "2.05")
    equal(b'</t/coap-discovery>;rt="core.ps.data";ct=0;obs' in got.payload, True)
    equal(coap.ask("get", "/.well-known/core?rt=core.ps.coll").payload, b'</ps>;rt="core.ps core.ps.coll";ct=40')


# CBOR: {0: "coap-ps", 2: "core.ps.data", 3: 50}, {4: "t"}, [0, 4], {0: "coap-ps"}
CREATE = b"\xa3\x00\x67coap-ps\x02\x6ccore.ps.data\x03\x18\x32"
PATCH = b"\xa1\x04\x61t"
KEYS = b"\x82\x00\x04"
NAMED = b"\xa1\x00\x67coap-ps"


@check()
def a_topic_by_configuration():
    made = coap.ask("post", "/ps", CREATE, 606)
    equal((made.code, made.location()), ("2.01", "/ps/coap-ps"))
    equal(b"</ps/coap-ps>" in coap.ask("get", "/ps").payload, True)
    equal(b"</t/coap-ps>" in coap.ask("get", "/ps?rt=core.ps.data").payload, True)
    equal(coap.ask("fetch", "/ps", NAMED, 606).payload, b'</ps/coap-ps>;rt="core.ps.conf";ct=606')
    equal(coap.ask("get", "/t/coap-ps").code, "4.04")
    equal(coap.ask("put", "/t/coap-ps", b"1", 0).code, "4.15")
    equal(coap.ask("put", "/t/coap-ps", b"{}", 50).code, "2.01")
    equal(coap.ask("ipatch", "/ps/coap-ps", PATCH, 606).code, "2.04")
    equal(coap.ask("fetch", "/ps/coap-ps", KEYS, 60).payload, b"\xa2\x00\x67coap-ps\x04\x61t")
    equal(coap.ask("post", "/ps/coap-ps", b"\xa0", 606).code, "2.04")
    equal(coap.ask("delete", "/ps/coap-ps").code, "2.02")
    equal(coap.ask("delete", "/ps/coap-ps").code, "4.04")
    equal(coap.ask("get", "/t/coap-ps").code, "4.04")


@check("1", "1,2")
def the_first_datagrams_are_lost(numbers):
    path = "/t/" + name_of("coap-lossy")
    equal(coap.ask("put", path, numbers.encode(), 0, "-l", numbers).code[0], "2")
    equal(coap.ask("get", path).payload, numbers.encode())


@check()
def blocks_are_lost():
    path, body = "/t/" + name_of("coap-lossy-blocks"), os.urandom(20_000)
    equal(coap.ask("put", path, body, 42, "-b", "1024", "-l", "3,9").code, "2.01")
    equal(coap.ask("get", path, None, None, "-b", "1024", "-l", "5").payload, body)


@check()
def who_calls_what_nobody_serves():
    equal(coap.ask("post", "/rpc/coap/none", b"x").code, "4.04")


run()
