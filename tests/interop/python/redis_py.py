"""The broker from redis-py, with no option but the protocol: redis_py.py BROKER_PORT REDIS_PORT 2|3

Two connections: `broker` takes messages in, `backing` is where they come out, as a plain list.
Knows no other client; fails with the line that was not so. Its queue is its own.
"""

import sys
import time

import redis

broker_port, redis_port, protocol = map(int, sys.argv[1:])
Q = f"interop:redis-py:{protocol}"
BINARY = b"\x00nul\r\ncrlf\xff\x00"

# Protocol 3 is what redis-py 8 opens with when told nothing.
options = {} if protocol == 3 else {"protocol": protocol}
broker = redis.Redis(port=broker_port, **options)
backing = redis.Redis(port=redis_port, **options)
dq = broker.execute_command


def fields(message):
    """A message as DQ.PEEK tells it: a map in RESP3, names and values in turn in RESP2."""
    assert isinstance(message, dict if protocol == 3 else list), message
    return message if protocol == 3 else dict(zip(message[::2], message[1::2]))


# Every form of an offer answers the id of the message: <due>-<hex>.
tomorrow = int(time.time() * 1000) + 86_400_000
first = dq("DQ.OFFER", Q, "1h", "in an hour")
dq("DQ.OFFER", Q, 5_400_000, "in 90 minutes")
at = dq("DQ.OFFER", Q, "AT", tomorrow, BINARY)
assert at.startswith(b"%d-" % tomorrow), at
rfc3339 = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(tomorrow // 1000 + 1))
dq("DQ.OFFER", Q, "AT", rfc3339, "a second later")
named = dq("DQ.OFFER", Q, "2h", "order 42", "NAME", "order:42")
assert dq("DQ.OFFER", Q, "3h", "again", "NAME", "order:42", "NX") is None
replaced = dq("DQ.OFFER", Q, "3h", "order 42, paid", "NAME", "order:42", "XX")
assert replaced != named
ids = dq("DQ.MOFFER", Q, "4h", "one", "5h", "", "6h", BINARY)
assert len(set(ids)) == 3, ids
assert dq("DQ.SIZE", Q) == 8

# What comes next, by due time.
peeked = [fields(message) for message in dq("DQ.PEEK", Q, "COUNT", 3)]
assert [m[b"payload"] for m in peeked] == [b"in an hour", b"in 90 minutes", b"order 42, paid"]
assert peeked[0][b"id"] == first and peeked[0][b"name"] is None, peeked[0]
assert peeked[0][b"due"] == int(first.split(b"-")[0]), peeked[0]
assert peeked[2][b"id"] == replaced and peeked[2][b"name"] == b"order:42", peeked[2]
assert fields(dq("DQ.GET", Q, at))[b"payload"] == BINARY
assert dq("DQ.PEEK", f"{Q}:none") == []

# By id or by name; what is gone already counts 0.
assert dq("DQ.CANCEL", Q, "order:42", *ids) == 4
assert dq("DQ.CANCEL", Q, "order:42", first) == 1
assert dq("DQ.SIZE", Q) == 3

# The first word of an error is its code.
for code, command in {
    "BADDELAY": ("DQ.OFFER", Q, "soon", "x"),
    "BADQUEUE": ("DQ.OFFER", "", "1h", "x"),
    "wrong number of arguments": ("DQ.OFFER", Q),
    "unknown command": ("DQ.NONE", Q),
}.items():
    try:
        raise AssertionError(f"{command} was answered: {dq(*command)}")
    except redis.ResponseError as error:
        assert str(error).startswith(code), error

# A thousand in one write; the replies come in order. (No MULTI: the broker has none.)
with broker.pipeline(transaction=False) as pipeline:
    for i in range(1000):
        pipeline.execute_command("DQ.OFFER", f"{Q}:many", "AT", tomorrow + i, f"message {i}")
    due = [int(id.split(b"-")[0]) for id in pipeline.execute()]
assert due == [tomorrow + i for i in range(1000)]
assert dq("DQ.SIZE", f"{Q}:many") == 1000

# Due messages are in the list of the queue's name, byte for byte.
dq("DQ.OFFER", Q, "20ms", BINARY)
assert list(backing.blpop([Q], timeout=10)) == [Q.encode(), BINARY]

assert dq("QUIT")
broker.close()
backing.close()
