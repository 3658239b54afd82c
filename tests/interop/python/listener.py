"""A listener: calls functions with the messages of queues. Below it is its test, which
tests/interop/listeners.py runs."""

import os
import signal
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import redis


class Listener:
    def __init__(self, **options):
        # A take waits for 2 seconds, on a connection of the pool of its own.
        self.broker = redis.Redis(protocol=3, socket_timeout=15, **options)
        self.stopping, self.threads = threading.Event(), []

    def register(self, queue, on_message, on_error, places=4, lease_ms=30_000):
        """`on_message(payload, attempt)` in `places` threads; it returns when the work is done."""
        args = (queue, on_message, on_error, places, lease_ms)
        self.threads.append(threading.Thread(target=self._listen, args=args))

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Returns when the last handler has ended, or after 2 seconds if none is at work."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _listen(self, queue, on_message, on_error, places, lease_ms):
        held, ended = set(), threading.Event()

        def settle(command, receipt, *options):
            for pause in (0.1, 1, 5, 0):
                try:
                    return self.broker.execute_command(command, queue, receipt, *options)
                except redis.RedisError as error:  # it may be repeated
                    on_error(error, None)
                    time.sleep(pause)

        def handle(message):
            receipt, payload = message[b"receipt"], message[b"payload"]
            try:
                on_message(payload, message[b"attempt"])
                settle("DQ.ACK", receipt)
            except Exception as error:
                settle("DQ.NACK", receipt, "REASON", repr(error).encode()[:512])
                on_error(error, payload)
            finally:
                held.discard(receipt)

        def extend():
            while not ended.wait(lease_ms / 3000):
                try:
                    if receipts := list(held):
                        self.broker.execute_command(
                            "DQ.EXTEND", queue, *receipts, "LEASE", lease_ms
                        )
                except redis.RedisError as error:
                    on_error(error, None)

        extender, at_work = threading.Thread(target=extend), set()
        extender.start()
        with ThreadPoolExecutor(places) as pool:
            while not self.stopping.is_set():
                if len(at_work) == places:
                    wait(at_work, return_when=FIRST_COMPLETED)
                    at_work = {work for work in at_work if not work.done()}
                    continue
                free = places - len(at_work)
                options = ("COUNT", free, "BLOCK", "2s", "LEASE", lease_ms)
                try:
                    taken = self.broker.execute_command("DQ.TAKE", queue, *options)
                except redis.RedisError as error:
                    on_error(error, None)
                    self.stopping.wait(1)
                    continue
                for message in taken or []:
                    if self.stopping.is_set():
                        settle("DQ.NACK", message[b"receipt"], "SILENT")
                    else:
                        held.add(message[b"receipt"])
                        at_work.add(pool.submit(handle, message))
                at_work = {work for work in at_work if not work.done()}
        ended.set()
        extender.join()


def on_message(payload, attempt):
    payload = payload.decode()
    print(f"begins {payload} {attempt}\n", end="", flush=True)
    time.sleep(6 if payload.startswith("slow") else 0.02)
    if payload.startswith("fail") and attempt == 1:
        raise ValueError("not yet")
    print(f"ends {payload} {attempt}\n", end="", flush=True)


def on_error(error, payload):
    print(f"fails {(payload or b'-').decode()} {error}\n", end="", flush=True)


if __name__ == "__main__":
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    listener = Listener(port=int(os.environ["BROKER_PORT"]))
    listener.register(os.environ["QUEUE"], on_message, on_error, places=4, lease_ms=4_000)
    listener.start()
    ended.wait()
    listener.stopping.set()
    print("stopping", flush=True)
    listener.stop()
