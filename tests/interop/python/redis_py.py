"""The broker from redis-py. Environment and steps: tests/interop/README.md."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import redis

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


# `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
broker = redis.Redis(port=int(os.environ["BROKER_PORT"]), **options)
backing = redis.Redis(port=int(os.environ["REDIS_PORT"]))
dq = broker.execute_command
assert broker.ping()
passed("connect")

id = broker.execute_command("DQ.OFFER", queue, "30m", "hello")
tomorrow = int(time.time() * 1000) + 86_400_000
at = dq("DQ.OFFER", queue, "AT", tomorrow, BINARY)
assert at.startswith(b"%d-" % tomorrow), at
named = dq("DQ.OFFER", queue, "1h", "order 42", "NAME", "order:42")
assert dq("DQ.OFFER", queue, "1h", "again", "NAME", "order:42", "NX") is None
passed("offer")

ids = dq("DQ.MOFFER", queue, "2h", "one", "3h", "", "4h", BINARY)
assert len({*ids, id, at, named}) == 6, ids
assert dq("DQ.SIZE", queue) == 6
passed("moffer")

cancelled = broker.execute_command("DQ.CANCEL", queue, id)
assert cancelled == 1
assert dq("DQ.CANCEL", queue, id, *ids) == 3
dq("DQ.OFFER", queue, "1h", "remind 42", "NAME", "remind:42")
by_name = dq("DQ.CANCEL", queue, "remind:42")
assert by_name == 1
passed("cancel")

moved = dq("DQ.RESCHEDULE", queue, "order:42", "45m")
assert moved not in (None, named), moved
assert dq("DQ.RESCHEDULE", queue, named, "45m") is None
passed("reschedule")

peeked = [fields(message) for message in dq("DQ.PEEK", queue, "COUNT", 5)]
assert [m[b"payload"] for m in peeked] == [b"order 42", BINARY], peeked
assert [m[b"name"] for m in peeked] == [b"order:42", None], peeked
assert [m[b"id"] for m in peeked] == [moved, at], peeked
assert peeked[1][b"due"] == tomorrow, peeked
assert dq("DQ.PEEK", queue + ":none") == []
passed("peek")

# The first word of an error is its code; redis-py keeps "ERR" to itself.
for code, command in {
    "BADDELAY ": ("DQ.OFFER", queue, "soon", "x"),
    "BADQUEUE ": ("DQ.OFFER", "", "1h", "x"),
    "wrong number of arguments": ("DQ.OFFER", queue),
    "unknown command": ("DQ.NONE", queue),
}.items():
    try:
        raise AssertionError(f"{command} was answered: {dq(*command)}")
    except redis.ResponseError as error:
        assert str(error).startswith(code), error
passed("errors")

# A thousand in one write; the replies come in order.
with broker.pipeline(transaction=False) as pipeline:
    for i in range(1000):
        pipeline.execute_command("DQ.OFFER", queue + ":many", "AT", tomorrow + i, f"message {i}")
    due = [int(id.split(b"-")[0]) for id in pipeline.execute()]
assert due == [tomorrow + i for i in range(1000)]
passed("pipeline")

# The default is a transaction: of several queues, stored with one call, or not at all.
with broker.pipeline() as transaction:
    transaction.execute_command("DQ.OFFER", queue + ":a", "1h", "first", "NAME", "one")
    transaction.execute_command("DQ.MOFFER", queue + ":b", "1h", BINARY, "2h", "")
    transaction.execute_command("DQ.OFFER", queue + ":a", "1h", "again", "NAME", "one", "NX")
    one, two, none = transaction.execute()
assert (len(two), none) == (2, None), (two, none)
assert dq("DQ.CANCEL", queue + ":a", one) == 1
assert dq("DQ.CANCEL", queue + ":b", *two) == 2
with broker.pipeline() as transaction:
    transaction.execute_command("DQ.OFFER", queue + ":a", "1h", "good")
    transaction.execute_command("DQ.OFFER", queue + ":a", "soon", "bad")
    try:
        raise AssertionError(f"answered: {transaction.execute()}")
    except redis.ResponseError as error:
        assert "BADDELAY " in str(error), error
assert dq("DQ.SIZE", queue + ":a") == 0
passed("transaction")

dq("DQ.OFFER", queue, "20ms", BINARY)
name, payload = backing.blpop(queue, timeout=4)
assert (name, payload) == (queue.encode(), BINARY)
passed("binary")

large = dq("DQ.OFFER", queue, "1h", LARGE)
assert fields(dq("DQ.GET", queue, large))[b"payload"] == LARGE
assert dq("DQ.FIRE", queue, large) == 1
payload = backing.blmove(queue, queue + ":working", timeout=4)
assert payload == LARGE
backing.lrem(queue + ":working", 1, payload)
assert backing.exists(queue + ":working") == 0
passed("large")

# A message is handed out until it is acknowledged. redis-py waits for 5 seconds at most.
dq("DQ.MOFFER", queue, 0, "one", 0, "", 0, BINARY)
messages = []
while len(messages) < 3:
    taken = broker.execute_command("DQ.TAKE", queue, "COUNT", 3, "BLOCK", "4s")
    messages += map(fields, taken)
one, two, three = messages
assert [m[b"payload"] for m in messages] == [b"one", b"", BINARY], messages
assert [m[b"attempt"] for m in messages] == [1, 1, 1], messages
acked = broker.execute_command("DQ.ACK", queue, one[b"receipt"])
assert acked == 1
assert dq("DQ.ACK", queue, one[b"receipt"]) == 0
assert dq("DQ.EXTEND", queue, two[b"receipt"], three[b"receipt"], "LEASE", "2m") == 2
assert dq("DQ.NACK", queue, two[b"receipt"], "DELAY", 0, "REASON", "not yet") == 1
again = fields(dq("DQ.TAKE", queue, "BLOCK", "4s")[0])
assert (again[b"id"], again[b"attempt"], again[b"payload"]) == (two[b"id"], 2, b""), again
assert dq("DQ.ACK", queue, again[b"receipt"], three[b"receipt"]) == 2
assert dq("DQ.TAKE", queue) is None
passed("consume")

pool = redis.BlockingConnectionPool.from_url(
    f"redis{'s' if os.environ['CA'] else ''}://localhost:{os.environ['BROKER_PORT']}",
    max_connections=50,
    **{option: value for option, value in options.items() if option != "ssl"},
)
pooled = redis.Redis(connection_pool=pool)
with ThreadPoolExecutor(50) as threads:
    offer = lambda i: pooled.execute_command("DQ.OFFER", queue + ":pool", "1h", f"message {i}")
    assert len(set(threads.map(offer, range(1000)))) == 1000
pool.disconnect()
passed("pool")

# redis-py tries again by itself, for some seconds.
subprocess.run([os.environ["RESTART"]], check=True)
assert dq("DQ.SIZE", queue) == 2
passed("restart")

assert dq("QUIT")
broker.close()
backing.close()
passed("quit")
