"""A Paho client whose messages wait in a queue."""

import queue

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import checks

V3, V5 = paho.MQTTv311, paho.MQTTv5


def properties(packet, **values):
    p = Properties(getattr(PacketTypes, packet))
    for name, value in values.items():
        setattr(p, name, value)
    return p


class Client:
    def __init__(self, version, client_id="", clean=True, expiry=None, will=None):
        self.version = version
        self.messages = queue.Queue()
        self.connected = queue.Queue()
        self.granted = queue.Queue()
        self.published = queue.Queue()
        self.ended = queue.Queue()
        args = {"client_id": client_id, "protocol": version}
        if version != V5:
            args["clean_session"] = clean
        if hasattr(paho, "CallbackAPIVersion"):
            args["callback_api_version"] = paho.CallbackAPIVersion.VERSION1
        c = self.paho = paho.Client(**args)
        c.on_connect = lambda _c, _u, flags, rc, props=None: self.connected.put((flags, rc))
        c.on_message = lambda _c, _u, m: self.messages.put(m)
        c.on_subscribe = lambda _c, _u, _mid, qos, props=None: self.granted.put(qos)
        c.on_publish = lambda _c, _u, mid: self.published.put(mid)
        c.on_disconnect = lambda *a: self.ended.put(a)
        if will:
            c.will_set(*will)
        kw = {}
        if version == V5:
            kw["clean_start"] = clean
            if expiry is not None:
                kw["properties"] = properties("CONNECT", SessionExpiryInterval=expiry)
        c.connect(*checks.MQTT, **kw)
        c.loop_start()
        flags, rc = self.connected.get(timeout=checks.PATIENCE)
        checks.equal(int(rc if isinstance(rc, int) else rc.value), 0)
        self.resumed = bool(flags["session present"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def subscribe(self, topic, qos=0, **kw):
        self.paho.subscribe(topic, qos, **kw)
        return [int(q if isinstance(q, int) else q.value) for q in self.granted.get(timeout=checks.PATIENCE)]

    def publish(self, topic, payload, qos=0, retain=False, props=None):
        """Returns when the broker has it, at QoS 1 and 2."""
        kw = {"properties": props} if props else {}
        self.paho.publish(topic, payload, qos, retain, **kw)
        self.published.get(timeout=checks.PATIENCE)

    def get(self):
        return self.messages.get(timeout=checks.PATIENCE)

    def payloads(self, n):
        return [self.get().payload for _ in range(n)]

    def nothing(self):
        try:
            m = self.messages.get(timeout=checks.QUIET)
        except queue.Empty:
            return
        raise AssertionError("%r came on %s" % (m.payload, m.topic))

    def close(self):
        self.paho.disconnect()
        self.paho.loop_stop()

    def vanish(self):
        """Ends the connection without a word."""
        self.paho.loop_stop()
        self.paho._sock_close()
