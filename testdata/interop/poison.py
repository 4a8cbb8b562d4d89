"""Checks with a message that kills every worker, by workers of each protocol
that are processes of their own and are started again and again."""

import os
import subprocess
import sys
import threading

from checks import check, equal, eventually, name_of, run
from pika_client import Client as Pika
from poison_worker import POISON

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 4
GOOD = 30


class Supervisor(threading.Thread):
    """Starts a worker, and another one when it dies, until it is stopped."""

    def __init__(self, *args):
        super().__init__()
        self.args = [sys.executable, "poison_worker.py", *args]
        self.deaths = 0
        self.lock = threading.Lock()
        self.over = False
        self.worker = None
        self.start()

    def run(self):
        while True:
            with self.lock:
                if self.over:
                    return
                self.worker = subprocess.Popen(self.args, cwd=HERE)
            self.worker.wait()
            with self.lock:
                self.deaths += not self.over

    def stop(self):
        with self.lock:
            self.over = True
            self.worker.kill()
        self.join()


@check("amqp", "mqtt", "stomp", "amqp mqtt stomp")
def a_poison_message(protocols):
    queue, done, dead = (name_of("poison", protocols.replace(" ", "-"), n) for n in ("work", "done", "dead"))
    with Pika() as c:
        c.queue(done)
        c.queue(dead)
        c.queue(queue, arguments={"x-delivery-limit": LIMIT, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
        for n in range(GOOD // 2):
            c.publish("", queue, b"%d" % n)
        c.publish("", queue, POISON, message_id="the bad one", headers={"kept": "yes"})
        for n in range(GOOD // 2, GOOD):
            c.publish("", queue, b"%d" % n)
        supervisors = [Supervisor(p, queue, done) for p in protocols.split()]
        try:
            eventually("the poison among the dead", lambda: c.count(dead) == 1, 60)
            eventually("the end of the work", lambda: c.count(done) >= GOOD, 60)
        finally:
            for s in supervisors:
                s.stop()
        c.consume(dead)
        m = c.get()
        death = m.properties.headers["x-death"][0]
        equal((m.body, m.properties.message_id, m.properties.headers["kept"]), (POISON, "the bad one", "yes"))
        equal((death["reason"], death["queue"], death["count"], death["exchange"], death["routing-keys"]),
              ("delivery_limit", queue, 1, "", [queue]))
        equal(sum(s.deaths for s in supervisors), LIMIT + 1)
        equal((c.count(queue), c.count(done)), (0, GOOD))


if __name__ == "__main__":
    run()
