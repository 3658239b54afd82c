"""The broker from redis-py's asyncio half. Environment and steps: tests/interop/README.md."""

import asyncio
import os
import time

import redis.asyncio as redis

queue, protocol = os.environ["QUEUE"], int(os.environ["PROTOCOL"])
BINARY = b"\x00nul\r\ncrlf\xff\x00"
LARGE = bytes(range(256)) * (4 << 12)  # 4 MiB

# Protocol 3 is what redis-py 8 opens with when told nothing.
options = {} if protocol == 3 else {"protocol": protocol}
if os.environ["PASSWORD"]:
    options["password"] = os.environ["PASSWORD"]
if os.environ["CA"]:
    options |= {"ssl": True, "ssl_ca_certs": os.environ["CA"]}


def passed(step):
    print(step, flush=True)


def fields(message):
    """A message as DQ.PEEK tells it: a map in RESP3, names and values in turn in RESP2."""
    assert isinstance(message, dict if protocol == 3 else list), message
    return message if protocol == 3 else dict(zip(message[::2], message[1::2]))


async def main():
    # `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
    broker = redis.Redis(port=int(os.environ["BROKER_PORT"]), **options)
    backing = redis.Redis(port=int(os.environ["REDIS_PORT"]))
    dq = broker.execute_command
    assert await broker.ping()
    passed("connect")

    id = await broker.execute_command("DQ.OFFER", queue, "30m", "hello")
    tomorrow = int(time.time() * 1000) + 86_400_000
    at = await dq("DQ.OFFER", queue, "AT", tomorrow, BINARY)
    assert at.startswith(b"%d-" % tomorrow), at
    named = await dq("DQ.OFFER", queue, "1h", "order 42", "NAME", "order:42")
    assert await dq("DQ.OFFER", queue, "1h", "again", "NAME", "order:42", "NX") is None
    passed("offer")

    ids = await dq("DQ.MOFFER", queue, "2h", "one", "3h", "", "4h", BINARY)
    assert len({*ids, id, at, named}) == 6, ids
    assert await dq("DQ.SIZE", queue) == 6
    passed("moffer")

    cancelled = await broker.execute_command("DQ.CANCEL", queue, id)
    assert cancelled == 1
    assert await dq("DQ.CANCEL", queue, id, *ids) == 3
    passed("cancel")

    moved = await dq("DQ.RESCHEDULE", queue, "order:42", "45m")
    assert moved not in (None, named), moved
    assert await dq("DQ.RESCHEDULE", queue, named, "45m") is None
    passed("reschedule")

    peeked = [fields(message) for message in await dq("DQ.PEEK", queue, "COUNT", 5)]
    assert [m[b"payload"] for m in peeked] == [b"order 42", BINARY], peeked
    assert [m[b"name"] for m in peeked] == [b"order:42", None], peeked
    assert [m[b"id"] for m in peeked] == [moved, at], peeked
    assert peeked[1][b"due"] == tomorrow, peeked
    assert await dq("DQ.PEEK", queue + ":none") == []
    passed("peek")

    # The first word of an error is its code; redis-py keeps "ERR" to itself.
    for code, command in {
        "BADDELAY ": ("DQ.OFFER", queue, "soon", "x"),
        "BADQUEUE ": ("DQ.OFFER", "", "1h", "x"),
        "wrong number of arguments": ("DQ.OFFER", queue),
        "unknown command": ("DQ.NONE", queue),
    }.items():
        try:
            raise AssertionError(f"{command} was answered: {await dq(*command)}")
        except redis.ResponseError as error:
            assert str(error).startswith(code), error
    passed("errors")

    # A thousand in one write; the replies come in order.
    async with broker.pipeline(transaction=False) as pipeline:
        for i in range(1000):
            due = ("AT", tomorrow + i)
            pipeline.execute_command("DQ.OFFER", queue + ":many", *due, f"message {i}")
        due = [int(id.split(b"-")[0]) for id in await pipeline.execute()]
    assert due == [tomorrow + i for i in range(1000)]
    passed("pipeline")

    # The default is a transaction: of several queues, stored with one call, or not at all.
    async with broker.pipeline() as transaction:
        transaction.execute_command("DQ.OFFER", queue + ":a", "1h", "first", "NAME", "one")
        transaction.execute_command("DQ.MOFFER", queue + ":b", "1h", BINARY, "2h", "")
        transaction.execute_command("DQ.OFFER", queue + ":a", "1h", "again", "NAME", "one", "NX")
        one, two, none = await transaction.execute()
    assert (len(two), none) == (2, None), (two, none)
    assert await dq("DQ.CANCEL", queue + ":a", one) == 1
    assert await dq("DQ.CANCEL", queue + ":b", *two) == 2
    async with broker.pipeline() as transaction:
        transaction.execute_command("DQ.OFFER", queue + ":a", "1h", "good")
        transaction.execute_command("DQ.OFFER", queue + ":a", "soon", "bad")
        try:
            raise AssertionError(f"answered: {await transaction.execute()}")
        except redis.ResponseError as error:
            assert "BADDELAY " in str(error), error
    assert await dq("DQ.SIZE", queue + ":a") == 0
    passed("transaction")

    await dq("DQ.OFFER", queue, "20ms", BINARY)
    name, payload = await backing.blpop(queue, timeout=4)
    assert (name, payload) == (queue.encode(), BINARY)
    passed("binary")

    large = await dq("DQ.OFFER", queue, "1h", LARGE)
    assert fields(await dq("DQ.GET", queue, large))[b"payload"] == LARGE
    assert await dq("DQ.FIRE", queue, large) == 1
    assert (await backing.blpop(queue, timeout=4))[1] == LARGE
    passed("large")

    # A message is handed out until it is acknowledged. redis-py waits for 5 seconds at most.
    await dq("DQ.MOFFER", queue, 0, "one", 0, "", 0, BINARY)
    messages = []
    while len(messages) < 3:
        taken = await broker.execute_command("DQ.TAKE", queue, "COUNT", 3, "BLOCK", "4s")
        messages += map(fields, taken)
    one, two, three = messages
    assert [m[b"payload"] for m in messages] == [b"one", b"", BINARY], messages
    assert [m[b"attempt"] for m in messages] == [1, 1, 1], messages
    acked = await broker.execute_command("DQ.ACK", queue, one[b"receipt"])
    assert acked == 1
    assert await dq("DQ.ACK", queue, one[b"receipt"]) == 0
    assert await dq("DQ.EXTEND", queue, two[b"receipt"], three[b"receipt"], "LEASE", "2m") == 2
    assert await dq("DQ.NACK", queue, two[b"receipt"], "DELAY", 0, "REASON", "not yet") == 1
    again = fields((await dq("DQ.TAKE", queue, "BLOCK", "4s"))[0])
    assert (again[b"id"], again[b"attempt"], again[b"payload"]) == (two[b"id"], 2, b""), again
    assert await dq("DQ.ACK", queue, again[b"receipt"], three[b"receipt"]) == 2
    assert await dq("DQ.TAKE", queue) is None
    passed("consume")

    pool = redis.BlockingConnectionPool.from_url(
        f"redis{'s' if os.environ['CA'] else ''}://localhost:{os.environ['BROKER_PORT']}",
        max_connections=50,
        **{option: value for option, value in options.items() if option != "ssl"},
    )
    # All fifty are opened, one by one: a TLS handshake takes a while, and they share one thread.
    opened = [await pool.get_connection() for _ in range(50)]
    for connection in opened:
        await pool.release(connection)
    pooled = redis.Redis.from_pool(pool)
    offers = (("DQ.OFFER", queue + ":pool", "1h", f"message {i}") for i in range(1000))
    answers = await asyncio.gather(*(pooled.execute_command(*offer) for offer in offers))
    assert len(set(answers)) == 1000
    await pooled.aclose()
    passed("pool")

    # redis-py tries again by itself, for some seconds.
    restart = await asyncio.create_subprocess_exec(os.environ["RESTART"])
    assert await restart.wait() == 0
    assert await dq("DQ.SIZE", queue) == 2
    passed("restart")

    assert await dq("QUIT")
    await broker.aclose()
    await backing.aclose()
    passed("quit")


asyncio.run(main())
