"""Checks with pika at one end, and clients of the other protocols at the other."""

import time

import mosquitto_client as mosquitto
import paho_client as paho
from checks import check, equal, eventually, name_of, run
from pika_client import Client as Pika
from stomp_client import Client as Stomp

MQTT = [(paho.V3,), (paho.V5,)]
PERSISTENT = 2


def names(*words):
    """A topic in both spellings."""
    levels = [name_of("amqp", *words).replace(".", ""), "7", "temp"]
    return "/".join(levels), ".".join(levels)


def listen(client, key, queue="", **kw):
    """Binds a queue to the shared topics, and consumes from it."""
    queue = client.queue(queue, exclusive=True)
    client.channel.queue_bind(queue, "amq.topic", key)
    client.consume(queue, auto_ack=True, **kw)
    return queue


@check(*MQTT)
def mqtt_to_amqp(version):
    topic, key = names("from-mqtt", version)
    with Pika() as sub, paho.Client(version) as pub:
        listen(sub, key.replace(".7.", ".*."))
        pub.publish(topic, b"\x00\xff21.5", 1)
        m = sub.get()
        equal((m.method.exchange, m.key, m.body, m.method.redelivered), ("amq.topic", key, b"\x00\xff21.5", False))


@check(*MQTT)
def amqp_to_mqtt(version):
    topic, key = names("to-mqtt", version)
    with Pika() as pub, paho.Client(version) as sub:
        sub.subscribe(topic.replace("/7/", "/+/"), 1)
        pub.publish("amq.topic", key, b"\x00\xff21.5", delivery_mode=PERSISTENT)
        m = sub.get()
        equal((m.topic, m.payload, m.qos, m.retain), (topic, b"\x00\xff21.5", 1, False))


@check("1.1", "1.2")
def stomp_to_amqp(version):
    _, key = names("from-stomp", version)
    with Pika() as sub, Stomp(version) as pub:
        listen(sub, key.replace(".temp", ".#"))
        pub.send("/topic/" + key, "21.5", content_type="text/plain", headers={"colour": "red"})
        m = sub.get()
        equal((m.method.exchange, m.key, m.body, m.properties.content_type, m.properties.headers["colour"]),
              ("amq.topic", key, b"21.5", "text/plain", "red"))


@check("1.1", "1.2")
def amqp_to_stomp(version):
    _, key = names("to-stomp", version)
    with Pika() as pub, Stomp(version) as sub:
        sub.subscribe("/topic/" + key.replace(".7.", ".*."))
        pub.publish("amq.topic", key, b"21.5", content_type="text/plain", correlation_id="c", headers={"colour": "red"})
        f = sub.get()
        equal((f.headers["destination"], f.body, f.headers["content-type"], f.headers["correlation-id"], f.headers["colour"]),
              ("/topic/" + key, "21.5", "text/plain", "c", "red"))


@check()
def properties_to_mqtt_5():
    topic, key = names("properties")
    with Pika() as pub, paho.Client(paho.V5) as sub:
        sub.subscribe(topic, 1)
        pub.publish("amq.topic", key, b"{}", content_type="application/json", correlation_id="c", expiration="60000", headers={"colour": "red"})
        p = sub.get().properties
        equal((p.ContentType, p.CorrelationData, ("colour", "red") in p.UserProperty), ("application/json", b"c", True))
        equal(0 < p.MessageExpiryInterval <= 60, True)


@check()
def mosquitto_and_pika():
    topic, key = names("mosquitto")
    with Pika() as c:
        listen(c, key)
        mosquitto.publish(mosquitto.V5, topic, b"from the shell", "-q", "1")
        equal(c.get().body, b"from the shell")


@check(*MQTT)
def retained_for_amqp(version):
    topic, key = names("retained", version)
    with Pika() as c, paho.Client(version) as m:
        c.publish("amq.topic", key, b"the latest", headers={"x-retain": True}, delivery_mode=PERSISTENT)
        c.channel.queue_declare("amqp-fence-%s" % version, exclusive=True)
        m.subscribe(topic, 1)
        got = m.get()
        equal((got.payload, got.retain), (b"the latest", True))


@check()
def one_queue_for_all_workers():
    """Workers of three protocols compete for what clients of three send."""
    queue = name_of("amqp", "orders")
    with Pika() as a, Pika() as ap, paho.Client(paho.V5) as m, paho.Client(paho.V3) as mp, Stomp() as s, Stomp() as sp:
        a.queue(queue)
        a.channel.basic_qos(prefetch_count=1)
        a.consume(queue)
        m.subscribe("$queue/" + queue, 1)
        s.subscribe("/queue/" + queue, ack="client-individual")
        for n in range(0, 30, 3):
            ap.publish("", queue, b"%d" % n)
            mp.publish("$queue/" + queue, b"%d" % (n + 1), 1)
            sp.send("/queue/" + queue, "%d" % (n + 2))
        done = {"amqp": [], "mqtt": [], "stomp": []}

        def work():
            while a.messages:
                one = a.messages.pop(0)
                done["amqp"].append(one.body.decode())
                a.ack(one)
            while not m.messages.empty():
                done["mqtt"].append(m.get().payload.decode())
            while not s.messages.empty():
                frame = s.get()
                done["stomp"].append(frame.body)
                s.ack(frame)
            a.connection.process_data_events(time_limit=0.01)
            return sum(map(len, done.values())) >= 30

        eventually("the end of the work", work)
        equal(sorted(int(n) for some in done.values() for n in some), list(range(30)))
        equal([name for name, some in done.items() if not some], [])
        a.nothing()
        m.nothing()
        s.nothing()


@check()
def a_lost_amqp_worker():
    queue = name_of("amqp", "lost")
    with Pika() as p, paho.Client(paho.V5) as next_one:
        p.queue(queue)
        for n in range(3):
            p.publish("", queue, b"%d" % n)
        lost = Pika()
        lost.consume(queue)
        equal(lost.bodies(3), [b"0", b"1", b"2"])
        next_one.subscribe("$queue/" + queue, 1)
        lost.vanish()
        equal(next_one.payloads(3), [b"0", b"1", b"2"])


@check()
def a_lost_stomp_worker():
    queue = name_of("amqp", "lost-stomp")
    with Pika() as c:
        c.queue(queue)
        lost = Stomp()
        lost.subscribe("/queue/" + queue, ack="client-individual")
        for n in range(3):
            c.publish("", queue, b"%d" % n)
        equal(lost.bodies(3), ["0", "1", "2"])
        c.consume(queue)
        lost.vanish()
        got = [c.get() for _ in range(3)]
        equal([(g.body, g.method.redelivered) for g in got], [(b"0", True), (b"1", True), (b"2", True)])


def reply_to_all(client, prefix):
    """Lets a Paho client answer each request, as an MQTT 5 responder does."""
    def on_request(_client, _userdata, m):
        p = paho.properties("PUBLISH", CorrelationData=m.properties.CorrelationData)
        client.paho.publish(m.properties.ResponseTopic, prefix + m.payload, 1, properties=p)

    client.paho.on_message = on_request


@check("a queue", "amq.rabbitmq.reply-to")
def amqp_asks_mqtt_5(where):
    topic, key = names("asks", where.replace(" ", "-"))
    with paho.Client(paho.V5) as responder, Pika() as asker:
        reply_to_all(responder, b"answer to ")
        responder.subscribe(topic, 1)
        answers = where if where.startswith("amq.") else asker.queue(exclusive=True)
        asker.consume(answers, auto_ack=True)
        for n in range(3):
            asker.publish("amq.topic", key, b"%d" % n, reply_to=answers, correlation_id="c%d" % n)
            m = asker.get()
            equal((m.body, m.properties.correlation_id), (b"answer to %d" % n, "c%d" % n))


@check()
def mqtt_5_asks_amqp():
    topic, key = names("asked")
    answers = topic + "/answers"
    with Pika() as responder, paho.Client(paho.V5) as asker:
        listen(responder, key)
        asker.subscribe(answers, 1)
        for n in range(3):
            props = paho.properties("PUBLISH", ResponseTopic=answers, CorrelationData=b"c%d" % n)
            asker.publish(topic, b"%d" % n, 1, props=props)
            q = responder.get()
            responder.publish("", q.properties.reply_to, b"answer to " + q.body, correlation_id=q.properties.correlation_id)
            m = asker.get()
            equal((m.topic, m.payload, m.properties.CorrelationData), (answers, b"answer to %d" % n, b"c%d" % n))


@check("1.1", "1.2")
def stomp_asks_amqp(version):
    queue = name_of("amqp", "stomp-asks", version)
    with Pika() as responder, Stomp(version) as asker:
        responder.queue(queue)
        responder.consume(queue, auto_ack=True)
        asker.send("/queue/" + queue, "question", headers={"reply-to": "/temp-queue/answers", "correlation-id": "c"})
        q = responder.get()
        responder.publish("", q.properties.reply_to, b"answer", correlation_id=q.properties.correlation_id)
        f = asker.get()
        equal((f.body, f.headers["correlation-id"]), ("answer", "c"))


@check()
def amqp_asks_stomp():
    queue = name_of("amqp", "asks-stomp")
    with Stomp() as responder, Pika() as asker:
        responder.subscribe("/queue/" + queue)
        asker.consume("amq.rabbitmq.reply-to", auto_ack=True)
        asker.publish("", queue, b"question", reply_to="amq.rabbitmq.reply-to", correlation_id="c")
        f = responder.get()
        responder.send(f.headers["reply-to"], "answer", headers={"correlation-id": f.headers["correlation-id"]})
        m = asker.get()
        equal((m.body, m.properties.correlation_id), (b"answer", "c"))


@check("1.1", "1.2")
def stomp_over_amqp_exchanges(version):
    exchange = name_of("amqp", "exchange", version)
    with Pika() as c, Stomp(version) as s:
        c.channel.exchange_declare(exchange, "direct", auto_delete=True)
        s.subscribe("/exchange/%s/k" % exchange)
        queue = c.queue(exclusive=True)
        c.channel.queue_bind(queue, exchange, "k")
        c.consume(queue, auto_ack=True)
        c.publish(exchange, "k", b"from AMQP")
        equal((s.get().body, c.get().body), ("from AMQP", b"from AMQP"))
        s.send("/exchange/%s/k" % exchange, "from STOMP")
        equal((s.get().body, c.get().body), ("from STOMP", b"from STOMP"))


@check()
def many_to_many_keep_their_order():
    topic, key = names("order")
    with Pika() as a, paho.Client(paho.V5) as m, Stomp() as s:
        listen(a, key)
        m.subscribe(topic, 1)
        s.subscribe("/topic/" + key)
        with Pika() as p:
            for n in range(300):
                p.publish("amq.topic", key, b"%d" % n)
        want = [b"%d" % n for n in range(300)]
        equal(a.bodies(300), want)
        equal(m.payloads(300), want)
        equal([b.encode() for b in s.bodies(300)], want)


@check()
def priorities_from_everybody():
    queue = name_of("amqp", "priorities")
    with Pika() as c, paho.Client(paho.V5) as m, Stomp() as s:
        c.queue(queue, arguments={"x-max-priority": 9})
        c.publish("", queue, b"amqp 2", priority=2)
        c.publish("", queue, b"amqp none")
        eventually("2 messages", lambda: c.count(queue) == 2)
        for p in (7, 1):
            m.publish("$queue/" + queue, b"mqtt %d" % p, 1, props=paho.properties("PUBLISH", UserProperty=[("x-priority", str(p))]))
        for p in (9, 4):
            s.send("/queue/" + queue, "stomp %d" % p, headers={"priority": str(p)})
        c.consume(queue, auto_ack=True)
        equal(c.bodies(6), [b"stomp 9", b"mqtt 7", b"stomp 4", b"amqp 2", b"mqtt 1", b"amqp none"])


@check("mqtt", "stomp", "amqp")
def expired_on_the_way_to_amqp(publisher):
    """What nobody fetched in time becomes a dead letter that tells so."""
    queue, dead = name_of("amqp", "expired", publisher), name_of("amqp", "expired", publisher, "dead")
    with Pika() as c, paho.Client(paho.V5) as m, Stomp() as s:
        c.queue(dead)
        c.queue(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
        c.consume(dead, auto_ack=True)
        if publisher == "mqtt":
            m.publish("$queue/" + queue, b"1", 1, props=paho.properties("PUBLISH", MessageExpiryInterval=1))
        elif publisher == "stomp":
            s.send("/queue/" + queue, "1", headers={"expiration": "200"})
        else:
            c.publish("", queue, b"1", expiration="200")
        got = c.get()
        death = got.properties.headers["x-death"][0]
        equal((got.body, death["reason"], death["queue"], death["original-expiration"]), (b"1", "expired", queue, "1000" if publisher == "mqtt" else "200"))


@check("1.1", "1.2")
def rejected_by_stomp(version):
    queue, dead = name_of("amqp", "rejected", version), name_of("amqp", "rejected", version, "dead")
    with Pika() as c, Stomp(version) as s:
        c.queue(dead)
        c.queue(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
        c.consume(dead, auto_ack=True)
        c.publish("", queue, b"no good", headers={"kept": "yes"})
        s.subscribe("/queue/" + queue, ack="client-individual")
        s.stomp.nack(s.get().headers["ack" if version == "1.2" else "message-id"], *(() if version == "1.2" else ("1",)), requeue="false")
        got = c.get()
        death = got.properties.headers["x-death"][0]
        equal((got.body, got.properties.headers["kept"], death["reason"], death["count"]), (b"no good", "yes", "rejected", 1))


@check("mqtt", "stomp", "amqp")
def later_for_amqp(publisher):
    topic, key = names("later", publisher)
    with Pika() as c, paho.Client(paho.V5) as m, Stomp() as s:
        listen(c, key)
        begin = time.monotonic()
        if publisher == "mqtt":
            m.publish(topic, b"1", 1, props=paho.properties("PUBLISH", UserProperty=[("x-delay", "700")]))
        elif publisher == "stomp":
            s.send("/topic/" + key, "1", headers={"x-delay": "700"})
        else:
            c.publish("amq.topic", key, b"1", headers={"x-delay": 700})
        equal(c.get().body, b"1")
        equal(0.69 < time.monotonic() - begin < 3, True)


@check("mqtt", "stomp")
def later_from_amqp(subscriber):
    topic, key = names("later-from-amqp", subscriber)
    with Pika() as c, paho.Client(paho.V5) as m, Stomp() as s:
        m.subscribe(topic, 1)
        s.subscribe("/topic/" + key)
        begin = time.monotonic()
        c.publish("amq.topic", key, b"1", headers={"x-delay": 700, "kept": "yes"})
        equal(m.get().payload if subscriber == "mqtt" else s.get().body.encode(), b"1")
        equal(0.69 < time.monotonic() - begin < 3, True)


@check()
def the_delayed_message_exchange():
    """As programs use RabbitMQ's plug-in."""
    exchange, queue = name_of("amqp", "delayed"), name_of("amqp", "delayed", "queue")
    with Pika() as c:
        c.channel.exchange_declare(exchange, "x-delayed-message", arguments={"x-delayed-type": "direct"})
        c.queue(queue)
        c.channel.queue_bind(queue, exchange, "k")
        c.consume(queue, auto_ack=True)
        for delay in (900, 300, 600):
            c.publish(exchange, "k", b"%d" % delay, headers={"x-delay": delay})
        c.publish(exchange, "k", b"at once")
        equal(c.bodies(4), [b"at once", b"300", b"600", b"900"])


if __name__ == "__main__":
    run()
