"""Checks with librabbitmq's command line (C)."""

import subprocess

from checks import AMQP, PATIENCE, check, equal, eventually, name_of, run
from pika_client import Client

URL = "amqp://guest:guest@%s:%d" % AMQP


def tool(name, *args, input=None, code=0):
    """Runs a tool to its end and returns what it wrote."""
    p = subprocess.run(["amqp-" + name, "-u", URL, *args], input=input, capture_output=True, timeout=PATIENCE)
    equal((p.returncode, p.stderr), (code, p.stderr if code else b""))
    return p.stdout


@check()
def a_queue_from_declare_to_delete():
    queue = name_of("tools", "life")
    equal(tool("declare-queue", "-q", queue, "-d").strip().decode(), queue)
    for n in range(3):
        tool("publish", "-r", queue, "-p", "-b", "message %d" % n)
    equal([tool("get", "-q", queue) for _ in range(2)], [b"message 0", b"message 1"])
    equal(tool("delete-queue", "-q", queue).strip(), b"1")
    tool("get", "-q", queue, code=1)


@check()
def get_of_an_empty_queue():
    queue = name_of("tools", "empty")
    tool("declare-queue", "-q", queue)
    equal(tool("get", "-q", queue, code=2), b"")


@check()
def lines_and_a_counted_consumer():
    queue = name_of("tools", "lines")
    tool("declare-queue", "-q", queue)
    tool("publish", "-r", queue, "-l", input=b"".join(b"line %d\n" % n for n in range(200)))
    equal(tool("consume", "-q", queue, "-c", "200", "-p", "10", "cat"), b"".join(b"line %d\n" % n for n in range(200)))
    with Client() as c:
        eventually("an empty queue", lambda: c.count(queue) == 0)


@check()
def properties_for_pika():
    queue = name_of("tools", "properties")
    with Client() as c:
        c.queue(queue)
        c.consume(queue, auto_ack=True)
        tool("publish", "-r", queue, "-p", "-C", "text/plain", "-E", "utf-8", "-t", "answers", "-H", "colour: red", "-b", "x")
        m = c.get()
        p = m.properties
        equal((m.body, p.content_type, p.content_encoding, p.reply_to, p.delivery_mode, p.headers), (b"x", "text/plain", "utf-8", "answers", 2, {"colour": "red"}))


@check()
def a_large_body():
    queue = name_of("tools", "large")
    body = bytes(i * 13 % 251 for i in range(1_500_000))
    tool("declare-queue", "-q", queue)
    tool("publish", "-r", queue, input=body)
    equal(tool("get", "-q", queue) == body, True)


@check()
def bound_to_an_exchange():
    """A consumer with a queue of its own, bound to the shared topics."""
    key = name_of("tools", "bound")
    consumer = subprocess.Popen(["amqp-consume", "-u", URL, "-e", "amq.topic", "-r", key + ".*", "-x", "-A", "-c", "2", "cat"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        with Client() as c:
            returned = []
            c.channel.add_on_return_callback(lambda *a: returned.append(a))

            def arrives():
                del returned[:]
                c.publish("amq.topic", key + ".first", b"1", mandatory=True)
                c.connection.process_data_events(time_limit=0.05)
                return not returned

            eventually("the binding", arrives)
            tool("publish", "-e", "amq.topic", "-r", key + ".second", "-b", "2")
            equal(consumer.communicate(timeout=PATIENCE)[0], b"12")
    finally:
        consumer.kill()


if __name__ == "__main__":
    run()
