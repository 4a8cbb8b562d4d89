"""Tasks for with_celery.py, and the application that its workers run."""

import os
import time

from celery import Celery
from checks import AMQP
from kombu import Queue

app = Celery("celery_tasks", broker="amqp://guest:guest@%s:%d//" % AMQP, backend="rpc://")
app.conf.update(
    task_queues=[Queue("celery"), Queue("fragile"), Queue("by-priority", queue_arguments={"x-max-priority": 10})],
    task_acks_late="CELERY_ACKS_LATE" in os.environ,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    task_send_sent_event=True,
)


@app.task
def add(x, y):
    return x + y


@app.task
def fail(why):
    raise ValueError(why)


@app.task(bind=True)
def flaky(self, failures):
    """Works after so many retries."""
    if self.request.retries < failures:
        raise self.retry(countdown=0.3, max_retries=failures)
    return self.request.retries


@app.task
def now(*_):
    return time.time()


@app.task
def wait_for(path):
    """Is at work until there is such a file."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return "it came"


@app.task(bind=True, acks_late=True)
def fragile(self, path):
    """Does not come to an end in the first worker that tries it."""
    if self.request.delivery_info["redelivered"]:
        return self.request.hostname
    with open(path, "w") as f:
        f.write(self.request.hostname)
    time.sleep(600)
