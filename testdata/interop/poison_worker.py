"""A worker of one protocol: copies each message of a queue to another, and
dies, without a word, of one that says so."""

import os
import signal
import sys

POISON = b"poison"


def die_of(body):
    if body == POISON:
        os.kill(os.getpid(), signal.SIGKILL)


def amqp(queue, done):
    from pika_client import Client

    c = Client()
    c.channel.basic_qos(prefetch_count=1)

    def on_message(channel, method, _properties, body):
        die_of(body)
        channel.basic_publish("", done, body)
        channel.basic_ack(method.delivery_tag)

    c.channel.basic_consume(queue, on_message)
    c.channel.start_consuming()


def mqtt(queue, done):
    import checks
    import paho.mqtt.client as paho
    from paho_client import V5, properties

    c = paho.Client(protocol=V5)

    def on_message(client, _userdata, m):
        die_of(m.payload)
        client.publish("$queue/" + done, m.payload, 1)

    c.on_message = on_message
    c.on_connect = lambda client, *_: client.subscribe("$queue/" + queue, 1)
    c.connect(*checks.MQTT, properties=properties("CONNECT", ReceiveMaximum=1))
    c.loop_forever()


def stomp(queue, done):
    from stomp_client import Client

    c = Client()
    c.subscribe("/queue/" + queue, ack="client-individual", **{"prefetch-count": "1"})
    while True:
        f = c.messages.get()
        die_of(f.body.encode())
        c.send("/queue/" + done, f.body)
        c.ack(f)


if __name__ == "__main__":
    {"amqp": amqp, "mqtt": mqtt, "stomp": stomp}[sys.argv[1]](*sys.argv[2:])
