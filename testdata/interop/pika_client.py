"""A pika client whose messages wait in a list."""

import socket
import time

import pika

import checks


class Message:
    def __init__(self, method, properties, body):
        self.method, self.properties, self.body = method, properties, body
        self.tag, self.key = method.delivery_tag, method.routing_key


class Client:
    """One connection with one channel, used by one thread."""

    def __init__(self, user="guest", password="guest", **parameters):
        host, port = checks.AMQP
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(
            host, port, credentials=pika.PlainCredentials(user, password), **parameters))
        self.channel = self.connection.channel()
        self.messages = []
        self.gone = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def queue(self, name="", **kw):
        """Declares a queue and returns its name."""
        return self.channel.queue_declare(name, **kw).method.queue

    def count(self, queue):
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def publish(self, exchange, key, body, mandatory=False, **properties):
        self.channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties), mandatory=mandatory)

    def consume(self, queue, auto_ack=False, **kw):
        """What is delivered waits until get takes it."""
        def on_message(_channel, method, properties, body):
            self.messages.append(Message(method, properties, body))

        return self.channel.basic_consume(queue, on_message, auto_ack=auto_ack, **kw)

    def get(self):
        end = time.monotonic() + checks.PATIENCE
        while not self.messages:
            if time.monotonic() > end:
                raise AssertionError("no message came in %d s" % checks.PATIENCE)
            self.connection.process_data_events(time_limit=0.05)
        return self.messages.pop(0)

    def bodies(self, n):
        return [self.get().body for _ in range(n)]

    def nothing(self):
        self.connection.process_data_events(time_limit=checks.QUIET)
        if self.messages:
            raise AssertionError("%r came" % self.messages[0].body)

    def ack(self, message, multiple=False):
        self.channel.basic_ack(message.tag, multiple)

    def close(self):
        if self.connection.is_open and not self.gone:
            self.connection.close()

    def vanish(self):
        """Ends the connection without a word."""
        self.gone = True
        self.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
