"""A stomp.py client whose messages wait in a queue."""

import itertools
import queue

import stomp

import checks

_numbers = itertools.count(1)


class Client(stomp.ConnectionListener):
    def __init__(self, version="1.2", binary=False, heartbeats=(0, 0), **headers):
        self.version = version
        self.messages = queue.Queue()
        self.receipts = queue.Queue()
        self.errors = queue.Queue()
        self.beats = queue.Queue()
        self.ended = queue.Queue()
        kind = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}[version]
        args = {} if version == "1.0" else {"heartbeats": heartbeats}
        self.stomp = kind([checks.STOMP], auto_decode=not binary, reconnect_attempts_max=1, **args)
        self.stomp.set_listener("", self)
        self.stomp.connect(wait=True, headers=headers or None)

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame):
        self.errors.put(frame)

    def on_heartbeat(self):
        self.beats.put(True)

    def on_disconnected(self):
        self.ended.put(True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _done(self, act):
        """Does something with a receipt and waits for it."""
        receipt = "r%d" % next(_numbers)
        act(receipt)
        checks.equal(self.receipts.get(timeout=checks.PATIENCE), receipt)

    def subscribe(self, destination, id="1", ack="auto", **headers):
        self._done(lambda r: self.stomp.subscribe(destination, id=id, ack=ack, headers=dict(headers, receipt=r)))

    def unsubscribe(self, id="1"):
        self._done(lambda r: self.stomp.unsubscribe(id=id, headers={"receipt": r}))

    def send(self, destination, body, content_type=None, headers=None):
        self._done(lambda r: self.stomp.send(destination, body, content_type=content_type,
                                             headers=dict(headers or {}, receipt=r)))

    def ack(self, frame, nack=False):
        f = self.stomp.nack if nack else self.stomp.ack
        if self.version == "1.2":
            self._done(lambda r: f(frame.headers["ack"], receipt=r))
        else:
            self._done(lambda r: f(frame.headers["message-id"], frame.headers["subscription"], receipt=r))

    def get(self):
        return self.messages.get(timeout=checks.PATIENCE)

    def bodies(self, n):
        return [self.get().body for _ in range(n)]

    def nothing(self):
        try:
            f = self.messages.get(timeout=checks.QUIET)
        except queue.Empty:
            return
        raise AssertionError("%r came" % (f.body,))

    def close(self):
        if self.stomp.is_connected():
            self.stomp.disconnect()

    def vanish(self):
        """Ends the connection without a word."""
        self.stomp.transport.disconnect_socket()
