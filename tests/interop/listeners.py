"""A listener of one language, started four times: listeners.py COMMAND...

The listener has 4 places and a lease of 4 s. Its handler says when it begins and ends, takes
6 seconds where the payload begins with `slow`, and fails once where it begins with `fail`.
Environment and steps: README.md beside this.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import redis

queue = os.environ["QUEUE"]
broker = redis.Redis(port=int(os.environ["BROKER_PORT"]), protocol=3)
dq = broker.execute_command
begun, ended = [], Counter()


class Run:
    """The program; it is ended with this."""

    def __enter__(self):
        self.program = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
        self.at_work, self.most, self.restarted = set(), 0, False
        return self

    def __exit__(self, *_):
        self.program.kill()
        self.program.wait()

    def line(self):
        """Reads a line, and keeps the books; '' at the end."""
        said = self.program.stdout.readline().strip()
        word, _, rest = said.partition(" ")
        if word == "begins":
            assert rest not in begun, f"{rest} was handed out twice"
            begun.append(rest)
            self.at_work.add(rest)
            self.most = max(self.most, len(self.at_work))
        elif word == "ends":
            ended[rest.split()[0]] += 1
            self.at_work.remove(rest)
        elif word == "fails":
            payload, error = rest.split(" ", 1)
            if payload == "-":  # The broker was away.
                assert self.restarted, said
                return said
            assert payload.startswith("fail") and "not yet" in error, said
            self.at_work.remove(f"{payload} 1")
        else:
            assert said in ("stopping", ""), said
        return said

    def until(self, condition):
        while not condition():
            assert self.line(), "it ended too early"

    def terminate(self):
        self.program.send_signal(signal.SIGTERM)
        while (said := self.line()) != "stopping":
            assert said, "it ended without a stop"

    def finish(self):
        """What is at work ends; nothing is left with it. (143 is Java's code for SIGTERM.)"""
        while self.line():
            pass
        assert self.program.wait() in (0, 143), self.program.returncode
        assert not self.at_work, self.at_work
        assert info(b"leased") == 0, dq("DQ.TAKEN", queue)


def info(field):
    return dq("DQ.INFO", queue)[field]


def eventually(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, dq("DQ.INFO", queue)
        time.sleep(0.02)


def take_until(condition):
    """As another listener that wants none of the messages: what has lost its lease comes here."""
    while not condition():
        for message in dq("DQ.TAKE", queue, "BLOCK", "100ms") or []:
            assert message[b"attempt"] < 2 or b"fail" in message[b"payload"], message
            dq("DQ.NACK", queue, message[b"receipt"], "SILENT", "DELAY", "100ms")


kinds = ["easy", "fail", *["easy"] * 18]
payloads = [f"{kinds[i % 20]}-{i}" for i in range(200)]
payloads[0], payloads[120] = "slow-0", "slow-120"
offers = [word for payload in payloads for word in (0, payload)]
dq("DQ.MOFFER", queue, *offers)
with Run() as run:
    run.until(lambda: ended.total() >= 20)
    # The slow one is at work all the time, for longer than its lease, and others take meanwhile.
    assert "slow-0 1" in run.at_work, run.at_work
    run.terminate()
    other = threading.Thread(target=take_until, args=(lambda: ended["slow-0"],))
    other.start()
    run.until(lambda: ended["slow-0"])
    other.join()
    run.finish()
    assert run.most == 4, f"{run.most} at a time"
    assert ended.total() < 190 and ended["slow-0"] == 1, ended
assert (info(b"leased"), info(b"lapsed")) == (0, 0), dq("DQ.INFO", queue)
print("stop", flush=True)

with Run() as run:
    run.until(lambda: ended.total() == 200)
    eventually(lambda: info(b"takers") == 1)
    eventually(lambda: info(b"acked") == 200)
    assert info(b"lapsed") == 0, dq("DQ.INFO", queue)
    run.restarted = True
    subprocess.run([os.environ["RESTART"]], check=True)
    eventually(lambda: info(b"takers") == 1)
    payloads += [f"easy-{i}" for i in range(200, 220)]
    dq("DQ.MOFFER", queue, *[word for payload in payloads[200:] for word in (0, payload)])
    run.until(lambda: ended.total() == 220)
    run.terminate()
    run.finish()
print("restart", flush=True)

# What comes to a take that still waits after the stop is given back. (A listener may be so fast
# that the message comes to no take: then another round.)
while True:
    with Run() as run:
        run.until(lambda: ended.total() == len(payloads))
        eventually(lambda: info(b"takers") == 1)
        run.terminate()
        payloads.append(f"late-{len(payloads)}")
        assert len(payloads) < 225, "it gives nothing back"
        dq("DQ.OFFER", queue, 0, payloads[-1])
        run.finish()
        assert ended[payloads[-1]] == 0, "it began after its stop"
    if info(b"waiting"):
        break
print("silent", flush=True)

with Run() as run:
    run.until(lambda: ended.total() == len(payloads))
    run.terminate()
    run.finish()
assert ended == Counter(payloads), ended
failed = [payload for payload in payloads if payload.startswith("fail")]
assert len(failed) == 10
tries = [f"{payload} 1" for payload in payloads] + [f"{payload} 2" for payload in failed]
assert sorted(begun) == sorted(tries), begun
for field in (b"pending", b"ready", b"leased", b"waiting", b"dead"):
    assert info(field) == 0, dq("DQ.INFO", queue)
for which in ("LEASED", "WAITING"):
    assert dq("DQ.TAKEN", queue, which)[1] == []
assert (info(b"acked"), info(b"lapsed")) == (len(payloads) - 200, 0), dq("DQ.INFO", queue)
print("rest", flush=True)
