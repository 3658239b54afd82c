"""Runs a consumer of a stream and sees what becomes of its entries.

    streams.py COMMAND...: environment and steps as README.md beside this says.

The consumer reads as the group `g`, says `<payload> <attempt>` of each entry, and acknowledges it.
At the first attempt it gives `back` back, or leaves it alone, and ends at `die`. One that prints
`offers` offers a message with Redisson's own delayed queue, which it then consumes.
"""

import os
import subprocess
import sys
import time

import redis

queue = os.environ["QUEUE"]
broker = redis.Redis(port=int(os.environ["BROKER_PORT"]), protocol=3)
backing = redis.Redis(port=int(os.environ["REDIS_PORT"]))


def start():
    return subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)


def expect(*lines):
    for line in lines:
        said = consumer.stdout.readline().strip()
        assert said == line, f"{said!r}, and not {line!r}"


def settled():
    """The group has acknowledged everything, and it is taken out of the stream."""
    deadline = time.monotonic() + 10
    while backing.xlen(queue) or backing.xpending(queue, "g")["pending"]:
        assert time.monotonic() < deadline, backing.xrange(queue)
        time.sleep(0.02)


settings = ["destination", "stream", "groups", "g", "lease_ms", 1000]
broker.execute_command("DQ.SETUP", queue, *settings)
consumer = start()
first = consumer.stdout.readline().strip()
if first == "offers":
    expect("offered 1")
    settled()
else:
    assert first == "reads", first
print("offer", flush=True)

broker.execute_command("DQ.OFFER", queue, 100, "easy")
expect("easy 1")
settled()
print("read", flush=True)

broker.execute_command("DQ.OFFER", queue, 0, "back")
expect("back 1", "back 2")
settled()
print("retry", flush=True)

broker.execute_command("DQ.OFFER", queue, 0, "die")
expect("die 1", "")
assert consumer.wait() == 0
consumer = start()
again = []
while "die 2" not in again:
    line = consumer.stdout.readline().strip()
    assert line in ("reads", "offers", "offered 1", "die 2"), line
    again.append(line)
if "offers" in again and "offered 1" not in again:
    expect("offered 1")
settled()
consumer.kill()
consumer.wait()
print("die", flush=True)
