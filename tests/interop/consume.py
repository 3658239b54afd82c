"""The consumer of docs/consume.md, run as it stands there.

    consume.py PAGE: environment and steps as README.md beside this says.

Ours are the queue, the ports, a lease of half a second, and the work: it says when it begins and
ends, fails at the first attempt where the payload is `fail`, and is slow where it is `slow`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import redis

queue = os.environ["QUEUE"]
broker = redis.Redis(port=int(os.environ["BROKER_PORT"]), protocol=3)
dq = broker.execute_command

TASKS = """
import sys, time, types
def handle(payload, attempt):
    payload = payload.decode()
    print("begins", payload, attempt, flush=True)
    if payload == "fail" and attempt == 1:
        raise ValueError("not yet")
    if payload == "slow":
        time.sleep(2)
    print("ends", payload, attempt, flush=True)
sys.modules["tasks"] = types.SimpleNamespace(handle=handle)
"""

code = re.search(r"\n```python\n(.*?)```", Path(sys.argv[1]).read_text(), re.S).group(1)
for shown, ours in {
    '"orders"': f'"{queue}"',
    "port=7379": f"port={os.environ['BROKER_PORT']}",
    "LEASE_MS = 30_000": "LEASE_MS = 500",
}.items():
    assert shown in code, shown
    code = code.replace(shown, ours)


def start():
    return subprocess.Popen([sys.executable, "-c", TASKS + code], stdout=subprocess.PIPE, text=True)


def expect(*lines):
    for line in lines:
        said = consumer.stdout.readline().strip()
        assert said == line, f"{said!r}, and not {line!r}"


def settled():
    """Nothing of the queue is left with consumers, within 10 seconds."""
    deadline = time.monotonic() + 10
    while any(dq("DQ.INFO", queue)[field] for field in (b"leased", b"waiting", b"dead")):
        assert time.monotonic() < deadline, dq("DQ.INFO", queue)
        time.sleep(0.02)


consumer = start()
dq("DQ.OFFER", queue, 0, "easy")
expect("begins easy 1", "ends easy 1")
settled()
print("take", flush=True)

# After five seconds, less a fifth at most.
dq("DQ.OFFER", queue, 0, "fail")
expect("begins fail 1")
while not (waiting := dq("DQ.TAKEN", queue, "WAITING")[1]):
    time.sleep(0.02)
assert waiting[0][b"reason"] == b"ValueError: not yet", waiting
expect("begins fail 2", "ends fail 2")
settled()
print("retry", flush=True)

# Four leases long, and nobody else gets it.
dq("DQ.OFFER", queue, 0, "slow")
expect("begins slow 1", "ends slow 1")
settled()
assert dq("DQ.INFO", queue)[b"lapsed"] == 0, dq("DQ.INFO", queue)
print("extend", flush=True)

dq("DQ.OFFER", queue, 0, "slow")
expect("begins slow 1")
consumer.kill()
consumer.wait()
consumer = start()
expect("begins slow 2", "ends slow 2")
settled()
print("kill", flush=True)

# It ends its work first.
dq("DQ.OFFER", queue, 0, "slow")
expect("begins slow 1")
consumer.send_signal(signal.SIGTERM)
expect("ends slow 1", "")
assert consumer.wait() == 0
settled()
print("stop", flush=True)
