"""Runs a script's checks and says how each went."""

import os
import sys
import time
import traceback


def address(name, default):
    host, port = os.environ.get(name, default).rsplit(":", 1)
    return host, int(port)


MQTT = address("MQTT", "127.0.0.1:1883")
STOMP = address("STOMP", "127.0.0.1:61613")
AMQP = address("AMQP", "127.0.0.1:5672")
COAP = address("COAP", "127.0.0.1:5683")

PATIENCE = 10  # seconds until something that should come counts as lost
QUIET = 0.3  # seconds in which something that should not come would have come

_checks = []


def check(*args):
    """Registers a check: once, or once for each tuple of arguments."""

    def register(f):
        for a in args or [()]:
            a = a if isinstance(a, tuple) else (a,)
            _checks.append((" ".join([f.__name__] + [str(x) for x in a]), f, a))
        return f

    return register


def equal(got, want):
    if got != want:
        raise AssertionError("got %.500r, want %.500r" % (got, want))


def eventually(what, yes, patience=PATIENCE):
    """Asks until the answer is yes."""
    end = time.monotonic() + patience
    while not yes():
        if time.monotonic() > end:
            raise AssertionError("%s did not happen in %d s" % (what, patience))
        time.sleep(0.01)


def name_of(*words):
    """A name for topics and queues that only this check uses."""
    return "-".join(str(w) for w in words)


def run():
    failed = 0
    for name, f, args in _checks:
        try:
            f(*args)
            print("ok", name, flush=True)
        except Exception as e:  # a check that cannot run has failed
            failed += 1
            print("not ok %s: %s: %s" % (name, type(e).__name__, str(e).replace("\n", " ")), flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
