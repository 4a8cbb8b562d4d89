"""Checks with Celery: unchanged, with real workers, and this broker."""

import os
import subprocess
import sys
import tempfile
import threading
import time

import celery_tasks as tasks
from celery import group
from celery.exceptions import TaskRevokedError
from checks import PATIENCE, check, equal, eventually, run

app = tasks.app
HERE = os.path.dirname(os.path.abspath(__file__))
START = 60  # seconds until a worker has to be there


class Worker:
    """A worker process of its own: its name, its queue, its log."""

    def __init__(self, name, queue="celery", *options, **env):
        self.name = "%s@here" % name
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-n", self.name, "-Q", queue, "-l", "INFO", *options],
            cwd=HERE, stdout=self.log, stderr=self.log, env=dict(os.environ, C_FORCE_ROOT="1", **env))

    def wait(self):
        """Waits until the worker answers, and ends it when it does not."""
        end = time.monotonic() + START
        try:
            while not app.control.ping(destination=[self.name], timeout=0.5):
                if self.ended() or time.monotonic() > end:
                    self.log.seek(0)
                    raise AssertionError("no worker %s: %s" % (self.name, self.log.read()[-2000:]))
        except BaseException:
            self.kill()
            raise
        return self

    def ended(self):
        return self.process.poll() is not None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self.wait()

    def __exit__(self, *_):
        self.kill()


main = None  # the worker that most checks use


def send(task, *args, **options):
    return task.apply_async(args, **options)


@check()
def task():
    equal(send(tasks.add, 2, 3).get(timeout=PATIENCE), 5)


@check()
def many_tasks():
    results = [send(tasks.add, n, n) for n in range(50)]
    equal([r.get(timeout=PATIENCE) for r in results], [2 * n for n in range(50)])


@check()
def a_task_that_fails():
    r = send(tasks.fail, "as it should")
    try:
        r.get(timeout=PATIENCE)
        raise AssertionError("it did not fail")
    except ValueError as e:
        equal((str(e), r.state), ("as it should", "FAILURE"))


@check()
def retry_with_countdown():
    begin = time.monotonic()
    equal(send(tasks.flaky, 2).get(timeout=PATIENCE), 2)
    equal(time.monotonic() - begin >= 0.6, True)


@check("countdown", "eta")
def later(how):
    begin = time.time()
    if how == "eta":
        import datetime

        options = {"eta": datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)}
    else:
        options = {"countdown": 1}
    done = send(tasks.now, **options).get(timeout=PATIENCE)
    equal(0.9 < done - begin < 5, True)


@check()
def expired_before_its_time():
    r = send(tasks.now, countdown=0.2, expires=0.05)
    try:
        r.get(timeout=PATIENCE)
        raise AssertionError("it was done")
    except TaskRevokedError:
        pass


@check()
def a_group():
    equal(group(tasks.add.s(n, 1) for n in range(20))().get(timeout=PATIENCE), list(range(1, 21)))


@check()
def a_chain():
    equal((tasks.add.s(1, 2) | tasks.add.s(10) | tasks.add.s(100))().get(timeout=PATIENCE), 113)


@check()
def results_by_rpc():
    r = send(tasks.add, 1, 1)
    equal(r.get(timeout=PATIENCE), 2)
    equal((r.state, r.successful(), r.backend.as_uri()), ("SUCCESS", True, "rpc://"))


@check()
def a_killed_worker_with_acks_late():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "begun")
        first = Worker("first", "fragile", "-P", "solo", "--without-mingle", "--without-gossip").wait()
        r = send(tasks.fragile, path, queue="fragile")
        eventually("the task's begin", lambda: os.path.exists(path))
        first.kill()
        with Worker("second", "fragile", "-P", "solo", "--without-mingle", "--without-gossip"):
            equal(r.get(timeout=PATIENCE), "second@here")


@check()
def priorities():
    """Waiting tasks are done by their priority, the highest first."""
    given = [3, 0, 9, 5, 9, 1, 0, 7, 3, 10]
    results = [(p, n, send(tasks.now, n, queue="by-priority", priority=p)) for n, p in enumerate(given)]
    with Worker("obeys", "by-priority", "-P", "solo", "--without-mingle", "--without-gossip", CELERY_ACKS_LATE="yes"):
        done = [(r.get(timeout=PATIENCE), p, n) for p, n, r in results]
    equal([(p, n) for _, p, n in sorted(done)], sorted(((p, n) for n, p in enumerate(given)), key=lambda x: (-x[0], x[1])))


@check()
def inspect_ping():
    equal(app.control.inspect([main.name]).ping(), {main.name: {"ok": "pong"}})


@check()
def inspect_active():
    inspect = app.control.inspect([main.name])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "go")
        r = send(tasks.wait_for, path)
        eventually("the task among the active", lambda: [t["id"] for t in (inspect.active() or {}).get(main.name, [])] == [r.id])
        open(path, "w").close()
        equal(r.get(timeout=PATIENCE), "it came")
    eventually("no active task", lambda: inspect.active() == {main.name: []})


@check()
def inspect_stats():
    stats = app.control.inspect([main.name]).stats()[main.name]
    equal((stats["total"]["celery_tasks.add"] >= 50, stats["broker"]["transport"]), (True, "amqp"))


@check("ping", "active", "stats")
def command_line_inspect(what):
    out = subprocess.run([sys.executable, "-m", "celery", "-A", "celery_tasks", "inspect", what, "-d", main.name],
                         cwd=HERE, capture_output=True, text=True, timeout=START)
    equal((out.returncode, main.name in out.stdout), (0, True))


@check()
def control_rate_limit():
    answer = app.control.rate_limit("celery_tasks.now", "5/s", destination=[main.name], reply=True, timeout=PATIENCE)
    equal(answer, [{main.name: {"ok": "new rate limit set successfully"}}])
    done = sorted(r.get(timeout=PATIENCE) for r in [send(tasks.now) for _ in range(6)])
    equal(done[-1] - done[0] > 0.6, True)
    app.control.rate_limit("celery_tasks.now", "0", destination=[main.name], reply=True, timeout=PATIENCE)


@check()
def events():
    seen, ready = [], threading.Event()

    def capture():
        with app.connection() as connection:
            receiver = app.events.Receiver(connection)

            def note(event):
                seen.append(event)
                receiver.should_stop = event["type"] == "task-succeeded"

            receiver.handlers = {"*": note}
            receiver.on_consume_ready = lambda *_, **__: ready.set()
            receiver.capture(limit=None, timeout=PATIENCE, wakeup=False)

    listener = threading.Thread(target=capture)
    listener.start()
    equal(ready.wait(PATIENCE), True)
    r = send(tasks.add, 1, 2)
    equal(r.get(timeout=PATIENCE), 3)
    listener.join()
    equal(sorted(e["type"] for e in seen if e.get("uuid") == r.id), ["task-received", "task-sent", "task-started", "task-succeeded"])


@check()
def revoke():
    r = send(tasks.now, countdown=600)
    inspect = app.control.inspect([main.name])
    eventually("the task among the scheduled", lambda: r.id in str(inspect.scheduled()))
    app.control.revoke(r.id, destination=[main.name], reply=True, timeout=PATIENCE)
    eventually("the task among the revoked", lambda: r.id in str(inspect.revoked()))


@check()
def purge():
    for _ in range(3):
        send(tasks.add, 1, 1, queue="fragile")
    with app.pool.acquire() as connection:
        channel = connection.default_channel
        eventually("3 messages", lambda: channel.queue_declare("fragile", passive=True).message_count == 3)
        equal(channel.queue_purge("fragile"), 3)


@check()
def control_shutdown():
    """The last one: nobody works afterwards."""
    app.control.shutdown(destination=[main.name])
    eventually("the worker's end", main.ended)
    equal(main.process.returncode, 0)


if __name__ == "__main__":
    main = Worker("main", "celery", "-c", "2", "-E")
    with main:
        run()
