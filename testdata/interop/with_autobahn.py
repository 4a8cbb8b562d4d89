"""Checks with Autobahn for Python, as component: publish, call, progress, errors."""

import asyncio
import os
import sys
import types

# Autobahn 22 asks for what Python 3.11 took away.
asyncio.coroutine = getattr(asyncio, "coroutine", types.coroutine)

from autobahn.asyncio.component import Component, run
from autobahn.wamp.exception import ApplicationError
from autobahn.wamp.types import CallOptions, PublishOptions, RegisterOptions, SubscribeOptions

SERIALIZERS = ["json", "msgpack"]
failed = []


def component(serializer):
    c = Component(
        transports=[{"type": "websocket", "url": os.environ["WAMP"], "serializers": [serializer]}],
        realm="realm1",
    )

    async def check(name, coroutine):
        name = f"{name} {serializer}"
        try:
            await asyncio.wait_for(coroutine, 10)
            print("ok", name)
        except Exception as e:
            failed.append(name)
            print(f"not ok {name}: {type(e).__name__} {e}")

    @c.on_join
    async def joined(session, details):
        prefix = f"autobahn.{serializer}"
        await check("events", events(session, prefix, serializer))
        await check("patterns", patterns(session, prefix))
        await check("calls", calls(session, prefix))
        await check("progress", progress(session, prefix))
        await check("errors", errors(session, prefix))
        await check("meta procedures", meta(session, details))
        await session.leave()
        loop = asyncio.get_event_loop()
        loop.call_later(0.2, loop.stop)

    return c


async def events(session, prefix, serializer):
    got = asyncio.get_event_loop().create_future()
    sub = await session.subscribe(lambda *args, **kwargs: got.set_result((args, kwargs)), prefix + ".t")
    sent = (1, "é", None, [1.5, {"k": True}])
    if serializer != "json":
        sent += (bytes(range(256)),)
    published = await session.publish(
        prefix + ".t", *sent, key="v", options=PublishOptions(acknowledge=True, exclude_me=False)
    )
    assert published.id > 0
    args, kwargs = await got
    assert args == sent and kwargs == {"key": "v"}, (args, kwargs)
    await sub.unsubscribe()


async def patterns(session, prefix):
    topics = []
    done = asyncio.Event()

    def take(value, details=None):
        topics.append((details.topic, value))
        if len(topics) == 2:
            done.set()

    await session.subscribe(take, prefix + ".pre", SubscribeOptions(match="prefix", details_arg="details"))
    for n, name in enumerate((".prefix", ".other", ".pre.x")):
        await session.publish(prefix + name, n, options=PublishOptions(acknowledge=True, exclude_me=False))
    await done.wait()
    assert topics == [(prefix + ".prefix", 0), (prefix + ".pre.x", 2)], topics


async def calls(session, prefix):
    registration = await session.register(lambda a, b=0: a + b, prefix + ".add")
    assert await session.call(prefix + ".add", 2, b=3) == 5
    assert sorted(await asyncio.gather(*(session.call(prefix + ".add", n) for n in range(200)))) == list(range(200))
    await registration.unregister()


async def progress(session, prefix):
    def count(n, details=None):
        for i in range(n):
            details.progress(i)
        return "end"

    await session.register(count, prefix + ".count", RegisterOptions(details_arg="details"))
    seen = []
    end = await session.call(prefix + ".count", 3, options=CallOptions(on_progress=seen.append))
    assert (seen, end) == ([0, 1, 2], "end"), (seen, end)


async def errors(session, prefix):
    def fail():
        raise ApplicationError("com.bad", "why", key=1)

    await session.register(fail, prefix + ".fail")
    for name, uri, args in ((".fail", "com.bad", ("why",)), (".none", "wamp.error.no_such_procedure", None)):
        try:
            await session.call(prefix + name)
        except ApplicationError as e:
            assert e.error == uri and args in (None, tuple(e.args)), e
        else:
            raise AssertionError("no error")


async def meta(session, details):
    assert details.session in await session.call("wamp.session.list")
    assert (await session.call("wamp.session.get", details.session))["authid"] == details.authid


if len(sys.argv) > 1:
    run([component(sys.argv[1])], log_level="error")
    sys.exit(len(failed) > 0)

import subprocess  # a run of components ends the loop for good

codes = [subprocess.call([sys.executable, __file__, s]) for s in SERIALIZERS]
sys.exit(any(codes))
