// The broker from ioredis. Environment and steps: tests/interop/README.md.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { Redis } from "ioredis";

const { QUEUE: queue, PROTOCOL, PASSWORD, CA, RESTART, BROKER_PORT, REDIS_PORT } = process.env;
const BINARY = Buffer.from("\0nul\r\ncrlf\xff\0", "latin1");
const LARGE = Buffer.alloc(4 << 20, Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
const passed = (step) => console.log(step);

// Protocol 3 is what ioredis 6 opens with when told nothing.
const options = PROTOCOL === "3" ? {} : { protocol: 2 };
if (PASSWORD) options.password = PASSWORD;
if (CA) options.tls = { ca: readFileSync(CA) };

// `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
const broker = new Redis(Number(BROKER_PORT), options);
const backing = new Redis(Number(REDIS_PORT));
// A broken connection is an event; ioredis connects again by itself.
broker.on("error", () => {});
const dq = (name, ...args) => broker.call(name, ...args);
assert.equal(await broker.ping(), "PONG");
passed("connect");

const id = await broker.call("DQ.OFFER", queue, "30m", "hello");
const tomorrow = Date.now() + 86_400_000;
const at = await dq("DQ.OFFER", queue, "AT", tomorrow, BINARY);
assert.ok(at.startsWith(`${tomorrow}-`), at);
const named = await dq("DQ.OFFER", queue, "1h", "order 42", "NAME", "order:42");
assert.equal(await dq("DQ.OFFER", queue, "1h", "again", "NAME", "order:42", "NX"), null);
passed("offer");

const ids = await dq("DQ.MOFFER", queue, "2h", "one", "3h", "", "4h", BINARY);
assert.equal(new Set([...ids, id, at, named]).size, 6);
assert.equal(await dq("DQ.SIZE", queue), 6);
passed("moffer");

const cancelled = await broker.call("DQ.CANCEL", queue, id);
assert.equal(cancelled, 1);
assert.equal(await dq("DQ.CANCEL", queue, id, ...ids), 3);
await broker.call("DQ.OFFER", queue, "1h", "remind 42", "NAME", "remind:42");
const byName = await broker.call("DQ.CANCEL", queue, "remind:42");
assert.equal(byName, 1);
passed("cancel");

const moved = await dq("DQ.RESCHEDULE", queue, "order:42", "45m");
assert.ok(moved && moved !== named, moved);
assert.equal(await dq("DQ.RESCHEDULE", queue, named, "45m"), null);
passed("reschedule");

// By due time. ioredis flattens the maps of RESP3, unless told otherwise.
const fields = (flat) =>
  Object.fromEntries(flat.flatMap((key, i) => (i % 2 ? [] : [[String(key), flat[i + 1]]])));
const peeked = (await broker.callBuffer("DQ.PEEK", queue, "COUNT", 5)).map(fields);
assert.deepEqual(
  peeked.map(({ id, name, due, payload }) => [String(id), name && String(name), due, payload]),
  [
    [moved, "order:42", parseInt(moved), Buffer.from("order 42")],
    [at, null, tomorrow, BINARY],
  ],
);
assert.deepEqual(await dq("DQ.PEEK", `${queue}:none`), []);
if (PROTOCOL === "3") {
  const mapped = broker.duplicate({ replyMapping: "resp3" });
  assert.equal((await mapped.call("DQ.PEEK", queue))[0].name, "order:42");
  await mapped.quit();
}
passed("peek");

// The first word of an error is its code.
for (const [message, ...command] of [
  [/^BADDELAY /, "DQ.OFFER", queue, "soon", "x"],
  [/^BADQUEUE /, "DQ.OFFER", "", "1h", "x"],
  [/^ERR wrong number of arguments/, "DQ.OFFER", queue],
  [/^ERR unknown command/, "DQ.NONE", queue],
]) {
  await assert.rejects(dq(...command), { name: "ReplyError", message });
}
passed("errors");

// A thousand in one write; the replies come in order.
const pipeline = broker.pipeline();
for (let i = 0; i < 1000; i++) {
  pipeline.call("DQ.OFFER", `${queue}:many`, "AT", tomorrow + i, `message ${i}`);
}
const replies = await pipeline.exec();
for (const [i, [error, id]] of replies.entries()) {
  assert.ok(error === null && id.startsWith(`${tomorrow + i}-`), `${i}: ${error ?? id}`);
}
passed("pipeline");

// Of several queues, stored with one call, or not at all.
const transaction = broker.multi();
transaction.call("DQ.OFFER", `${queue}:a`, "1h", "first", "NAME", "one");
transaction.call("DQ.MOFFER", `${queue}:b`, "1h", BINARY, "2h", "");
transaction.call("DQ.OFFER", `${queue}:a`, "1h", "again", "NAME", "one", "NX");
const [[, one], [, two], [, none]] = await transaction.exec();
assert.deepEqual([two.length, none], [2, null]);
assert.equal(await dq("DQ.CANCEL", `${queue}:a`, one), 1);
assert.equal(await dq("DQ.CANCEL", `${queue}:b`, ...two), 2);
const refused = broker.multi();
refused.call("DQ.OFFER", `${queue}:a`, "1h", "good");
refused.call("DQ.OFFER", `${queue}:a`, "soon", "bad");
await assert.rejects(refused.exec(), { name: "ReplyError", message: /^EXECABORT / });
assert.equal(await dq("DQ.SIZE", `${queue}:a`), 0);
passed("transaction");

await dq("DQ.OFFER", queue, "20ms", BINARY);
const [name, payload] = await backing.blpopBuffer(queue, 10);
assert.deepEqual([String(name), payload], [queue, BINARY]);
passed("binary");

const large = await dq("DQ.OFFER", queue, "1h", LARGE);
assert.ok(fields(await broker.callBuffer("DQ.GET", queue, large)).payload.equals(LARGE));
assert.equal(await dq("DQ.FIRE", queue, large), 1);
const work = await backing.blmoveBuffer(queue, `${queue}:working`, "LEFT", "RIGHT", 10);
assert.ok(work.equals(LARGE));
await backing.lrem(`${queue}:working`, 1, work);
assert.equal(await backing.exists(`${queue}:working`), 0);
passed("large");

// A message is handed out until it is acknowledged. Takes that wait have a connection of their own.
const taker = broker.duplicate();
await dq("DQ.MOFFER", queue, 0, "one", 0, "", 0, BINARY);
const messages = [];
while (messages.length < 3) {
  const taken = await taker.callBuffer("DQ.TAKE", queue, "COUNT", 3, "BLOCK", "5s");
  messages.push(...taken.map(fields));
}
const [first, second, third] = messages;
assert.deepEqual(
  messages.map(({ payload, attempt }) => [payload, attempt]),
  [Buffer.from("one"), Buffer.from(""), BINARY].map((payload) => [payload, 1]),
);
const acked = await broker.call("DQ.ACK", queue, first.receipt);
assert.equal(acked, 1);
assert.equal(await dq("DQ.ACK", queue, first.receipt), 0);
assert.equal(await dq("DQ.EXTEND", queue, second.receipt, third.receipt, "LEASE", "2m"), 2);
assert.equal(await dq("DQ.NACK", queue, second.receipt, "DELAY", 0, "REASON", "not yet"), 1);
const again = fields((await taker.callBuffer("DQ.TAKE", queue, "BLOCK", "5s"))[0]);
assert.deepEqual([again.id, again.attempt, again.payload.length], [second.id, 2, 0]);
assert.equal(await dq("DQ.ACK", queue, again.receipt, third.receipt), 2);
assert.equal(await taker.call("DQ.TAKE", queue), null);
await taker.quit();
passed("consume");

// ioredis has no pool of its own: fifty connections, in turn.
const pool = Array.from({ length: 50 }, () => broker.duplicate());
const offers = Array.from({ length: 1000 }, (_, i) =>
  pool[i % 50].call("DQ.OFFER", `${queue}:pool`, "1h", `message ${i}`),
);
assert.equal(new Set(await Promise.all(offers)).size, 1000);
await Promise.all(pool.map((connection) => connection.quit()));
passed("pool");

// What is sent while there is no connection waits for the next one.
await promisify(execFile)(RESTART);
assert.equal(await dq("DQ.SIZE", queue), 2);
passed("restart");

assert.equal(await broker.quit(), "OK");
await backing.quit();
passed("quit");
