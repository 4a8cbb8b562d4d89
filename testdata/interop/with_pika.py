"""Checks with pika: the patterns that programs written for RabbitMQ are made of."""

import uuid

import pika
from checks import check, equal, eventually, name_of, run
from pika_client import Client

PERSISTENT = 2


@check()
def hello():
    with Client() as sender, Client() as receiver:
        queue = receiver.queue(name_of("pika", "hello"))
        sender.publish("", queue, b"Hello")
        receiver.consume(queue, auto_ack=True)
        m = receiver.get()
        equal((m.body, m.method.exchange, m.key, m.method.redelivered), (b"Hello", "", queue, False))


@check()
def work_queue():
    queue = name_of("pika", "work")
    with Client() as boss, Client() as slow, Client() as quick:
        boss.queue(queue, durable=True)
        for w in (slow, quick):
            w.channel.basic_qos(prefetch_count=1)
            w.consume(queue)
        for n in range(10):
            boss.publish("", queue, b"%d" % n, delivery_mode=PERSISTENT)
        kept = slow.get()  # and does not finish it
        done = []
        for _ in range(9):
            m = quick.get()
            done.append(m.body)
            quick.ack(m)
        equal(sorted(done + [kept.body]), [b"%d" % n for n in range(10)])
        slow.nothing()
        slow.vanish()
        m = quick.get()
        equal((m.body, m.method.redelivered, m.properties.delivery_mode), (kept.body, True, PERSISTENT))
        quick.ack(m)
        eventually("the queue's end", lambda: boss.count(queue) == 0)


@check()
def publish_subscribe():
    exchange = name_of("pika", "logs")
    with Client() as p, Client() as a, Client() as b:
        p.channel.exchange_declare(exchange, "fanout")
        p.publish(exchange, "", b"nobody listens")
        for c in (a, b):
            queue = c.queue(exclusive=True)
            equal(queue.startswith("amq.gen-"), True)
            c.channel.queue_bind(queue, exchange)
            c.consume(queue, auto_ack=True)
        for n in range(3):
            p.publish(exchange, "ignored", b"%d" % n)
        equal(a.bodies(3), [b"0", b"1", b"2"])
        equal(b.bodies(3), [b"0", b"1", b"2"])


@check()
def routing():
    exchange = name_of("pika", "direct_logs")
    with Client() as p, Client() as errors, Client() as all_of_them:
        p.channel.exchange_declare(exchange, "direct")
        for c, severities in ((errors, ["error"]), (all_of_them, ["info", "warning", "error"])):
            queue = c.queue(exclusive=True)
            for s in severities:
                c.channel.queue_bind(queue, exchange, s)
            c.consume(queue, auto_ack=True)
        for s in ("info", "error", "debug", "warning"):
            p.publish(exchange, s, s.encode())
        equal(all_of_them.bodies(3), [b"info", b"error", b"warning"])
        equal(errors.bodies(1), [b"error"])
        errors.nothing()


@check()
def topics():
    exchange = name_of("pika", "topic_logs")
    bindings = {"all": ["#"], "kern": ["kern.*"], "critical": ["*.critical"], "two": ["kern.*", "*.critical"]}
    with Client() as p:
        p.channel.exchange_declare(exchange, "topic")
        listeners = {}
        try:
            for name, keys in bindings.items():
                c = listeners[name] = Client()
                queue = c.queue(exclusive=True)
                for k in keys:
                    c.channel.queue_bind(queue, exchange, k)
                c.consume(queue, auto_ack=True)
            for key in ("kern.critical", "kern.info", "cron.critical", "cron.info", "kern"):
                p.publish(exchange, key, key.encode())
            equal(listeners["all"].bodies(5), [b"kern.critical", b"kern.info", b"cron.critical", b"cron.info", b"kern"])
            equal(listeners["kern"].bodies(2), [b"kern.critical", b"kern.info"])
            equal(listeners["critical"].bodies(2), [b"kern.critical", b"cron.critical"])
            equal(listeners["two"].bodies(3), [b"kern.critical", b"kern.info", b"cron.critical"])
            for c in listeners.values():
                c.nothing()
        finally:
            for c in listeners.values():
                c.close()


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def serve(server, calls):
    """Answers so many calls."""
    for _ in range(calls):
        m = server.get()
        server.publish("", m.properties.reply_to, str(fibonacci(int(m.body))).encode(),
                       correlation_id=m.properties.correlation_id)
        server.ack(m)


@check("callback queue", "amq.rabbitmq.reply-to")
def rpc(reply_to):
    queue = name_of("pika", "rpc", reply_to)
    with Client() as server, Client() as caller:
        server.queue(queue)
        server.channel.basic_qos(prefetch_count=1)
        server.consume(queue)
        answers = reply_to if reply_to.startswith("amq.") else caller.queue(exclusive=True)
        caller.consume(answers, auto_ack=True)
        for n, want in ((30, b"832040"), (10, b"55")):
            correlation = str(uuid.uuid4())
            caller.publish("", queue, str(n).encode(), reply_to=answers, correlation_id=correlation)
            serve(server, 1)
            m = caller.get()
            equal((m.body, m.properties.correlation_id), (want, correlation))


@check()
def publisher_confirms():
    queue = name_of("pika", "confirms")
    with Client() as c:
        c.channel.confirm_delivery()
        c.queue(queue, durable=True, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
        for n in range(3):
            c.publish("", queue, b"%d" % n, mandatory=True, delivery_mode=PERSISTENT)
        try:
            c.publish("", queue, b"one too many", mandatory=True)
            raise AssertionError("a full queue took a message")
        except pika.exceptions.NackError:
            pass
        try:
            c.publish("", "no-such-queue", b"1", mandatory=True)
            raise AssertionError("a missing queue took a message")
        except pika.exceptions.UnroutableError as e:
            equal((e.messages[0].method.reply_code, e.messages[0].body), (312, b"1"))
        equal(c.count(queue), 3)


@check()
def transactions():
    queue = name_of("pika", "tx")
    with Client() as c, Client() as other:
        c.queue(queue)
        c.channel.tx_select()
        c.publish("", queue, b"1")
        c.channel.tx_rollback()
        c.publish("", queue, b"2")
        equal(other.count(queue), 0)
        c.channel.tx_commit()
        other.consume(queue)
        equal(other.bodies(1), [b"2"])


@check()
def cancelled_by_the_broker():
    queue = name_of("pika", "cancelled")
    with Client() as c, Client() as other:
        c.queue(queue)
        ends = []
        c.channel.add_on_cancel_callback(lambda frame: ends.append(frame.method.consumer_tag))
        tag = c.consume(queue)
        other.channel.queue_delete(queue)
        eventually("the cancel", lambda: c.connection.process_data_events(time_limit=0.01) or ends)
        equal(ends, [tag])


@check()
def channel_errors():
    with Client() as c:
        for code, act in (
            (404, lambda ch: ch.queue_declare("pika-no-such", passive=True)),
            (403, lambda ch: ch.queue_declare("amq.mine")),
            (406, lambda ch: ch.exchange_declare("amq.topic", "fanout", durable=True)),
        ):
            try:
                act(c.connection.channel())
                raise AssertionError("%d was expected" % code)
            except pika.exceptions.ChannelClosedByBroker as e:
                equal(e.reply_code, code)
        equal(c.channel.is_open, True)


@check()
def properties():
    queue = name_of("pika", "properties")
    sent = pika.BasicProperties(
        content_type="application/json", content_encoding="utf-8", 
        headers={"a": 1, "b": [True, None, "x"], "c": {"d": 5_000_000_000, "e": b"\x00\xff"}},
        delivery_mode=2, priority=3, correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1700000000,
        type="t", user_id="guest", app_id="app")
    with Client() as c:
        c.queue(queue)
        c.channel.basic_publish("", queue, b"{}", sent)
        c.consume(queue)
        got = c.get().properties
        for name in ("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
                     "expiration", "message_id", "timestamp", "type", "user_id", "app_id"):
            equal((name, getattr(got, name)), (name, getattr(sent, name)))


@check(0, 1, 131064, 131065, 3_000_000)
def bodies(size):
    queue = name_of("pika", "bodies", size)
    body = bytes(i * 7 % 256 for i in range(size))
    with Client() as c:
        c.queue(queue, auto_delete=True)
        c.publish("", queue, body)
        c.consume(queue)
        equal(c.get().body == body, True)


if __name__ == "__main__":
    run()
