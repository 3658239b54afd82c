"""A consumer of a stream, which tests/interop/streams.py runs."""

import os

import redis

queue = os.environ["QUEUE"]
broker = redis.Redis(port=int(os.environ["BROKER_PORT"]))
backing = redis.Redis(port=int(os.environ["REDIS_PORT"]), decode_responses=True)

print("reads", flush=True)
while True:
    found = backing.xreadgroup("g", "worker", {queue: ">"}, count=10, block=2000)
    # In RESP3 a map of stream to a list of lists.
    pages = [entries for _, entries in found] if isinstance(found, list) else [
        entries for pages in (found or {}).values() for entries in pages]
    for entry, fields in (entry for page in pages for entry in page):
        payload, attempt = fields["payload"], int(fields.get("attempt", 1))
        print(payload, attempt, flush=True)
        if payload == "die" and attempt == 1:
            raise SystemExit
        if payload == "back" and attempt == 1:
            terms = ["GROUP", "g", entry, "DELAY", 100, "REASON", "not yet"]
            assert broker.execute_command("DQ.NACK", queue, *terms) == 1
        else:
            assert backing.xack(queue, "g", entry) == 1
