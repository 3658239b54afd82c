// The broker from node-redis. Environment and steps: tests/interop/README.md.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { createClient, createClientPool, ErrorReply, RESP_TYPES } from "redis";

const { QUEUE: queue, PROTOCOL, PASSWORD, CA, RESTART, BROKER_PORT, REDIS_PORT } = process.env;
const BINARY = Buffer.from("\0nul\r\ncrlf\xff\0", "latin1");
const LARGE = Buffer.alloc(4 << 20, Buffer.from(Array.from({ length: 256 }, (_, i) => i)));
const passed = (step) => console.log(step);

// Protocol 3 is what node-redis 6 opens with when told nothing.
const options = { url: `redis${CA ? "s" : ""}://localhost:${BROKER_PORT}` };
if (PROTOCOL === "2") options.RESP = 2;
if (PASSWORD) options.password = PASSWORD;
if (CA) options.socket = { tls: true, ca: readFileSync(CA) };

// `broker` takes messages in; `backing` is the Redis where they come out, as a plain list.
const broker = createClient(options);
const backing = createClient({ url: `redis://localhost:${REDIS_PORT}` });
// A broken connection is an event; node-redis connects again by itself.
broker.on("error", () => {});
await broker.connect();
await backing.connect();
// node-redis takes strings and buffers only; it gives buffers back where it is told to.
const dq = (...args) => broker.sendCommand(args);
const buffers = { [RESP_TYPES.BLOB_STRING]: Buffer };
assert.equal(await broker.ping(), "PONG");
passed("connect");

const id = await broker.sendCommand(["DQ.OFFER", queue, "30m", "hello"]);
const tomorrow = Date.now() + 86_400_000;
const at = await dq("DQ.OFFER", queue, "AT", String(tomorrow), BINARY);
assert.ok(at.startsWith(`${tomorrow}-`), at);
const named = await dq("DQ.OFFER", queue, "1h", "order 42", "NAME", "order:42");
assert.equal(await dq("DQ.OFFER", queue, "1h", "again", "NAME", "order:42", "NX"), null);
passed("offer");

const ids = await dq("DQ.MOFFER", queue, "2h", "one", "3h", "", "4h", BINARY);
assert.equal(new Set([...ids, id, at, named]).size, 6);
assert.equal(await dq("DQ.SIZE", queue), 6);
passed("moffer");

const cancelled = await broker.sendCommand(["DQ.CANCEL", queue, id]);
assert.equal(cancelled, 1);
assert.equal(await dq("DQ.CANCEL", queue, id, ...ids), 3);
passed("cancel");

const moved = await dq("DQ.RESCHEDULE", queue, "order:42", "45m");
assert.ok(moved && moved !== named, moved);
assert.equal(await dq("DQ.RESCHEDULE", queue, named, "45m"), null);
passed("reschedule");

// By due time: objects in RESP3, names and values in turn in RESP2.
const fields = (message) => {
  assert.equal(Array.isArray(message), PROTOCOL === "2");
  if (PROTOCOL === "3") return message;
  const pairs = message.flatMap((key, i) => (i % 2 ? [] : [[String(key), message[i + 1]]]));
  return Object.fromEntries(pairs);
};
const inBuffers = (...args) => broker.sendCommand(args, { typeMapping: buffers });
const peeked = (await inBuffers("DQ.PEEK", queue, "COUNT", "5")).map(fields);
assert.deepEqual(
  peeked.map(({ id, name, due, payload }) => [String(id), name && String(name), due, payload]),
  [
    [moved, "order:42", parseInt(moved), Buffer.from("order 42")],
    [at, null, tomorrow, BINARY],
  ],
);
assert.deepEqual(await dq("DQ.PEEK", `${queue}:none`), []);
passed("peek");

// The first word of an error is its code.
for (const [message, ...command] of [
  [/^BADDELAY /, "DQ.OFFER", queue, "soon", "x"],
  [/^BADQUEUE /, "DQ.OFFER", "", "1h", "x"],
  [/^ERR wrong number of arguments/, "DQ.OFFER", queue],
  [/^ERR unknown command/, "DQ.NONE", queue],
]) {
  await assert.rejects(dq(...command), (error) => {
    assert.ok(error instanceof ErrorReply);
    assert.match(error.message, message);
    return true;
  });
}
passed("errors");

// A thousand in one write (what is sent in one turn of the event loop); replies come in order.
const due = Array.from({ length: 1000 }, (_, i) => String(tomorrow + i));
const many = due.map((due, i) => dq("DQ.OFFER", `${queue}:many`, "AT", due, `message ${i}`));
for (const [i, id] of (await Promise.all(many)).entries()) {
  assert.ok(id.startsWith(`${tomorrow + i}-`), `${i}: ${id}`);
}
passed("pipeline");

await dq("DQ.OFFER", queue, "20ms", BINARY);
const { key, element } = await backing.withTypeMapping(buffers).blPop(queue, 10);
assert.deepEqual([String(key), element], [queue, BINARY]);
passed("binary");

const large = await dq("DQ.OFFER", queue, "1h", LARGE);
assert.ok(fields(await inBuffers("DQ.GET", queue, large)).payload.equals(LARGE));
assert.equal(await dq("DQ.FIRE", queue, large), 1);
assert.ok((await backing.withTypeMapping(buffers).blPop(queue, 10)).element.equals(LARGE));
passed("large");

// A message is handed out until it is acknowledged. Takes that wait have a connection of their own.
const taker = broker.duplicate().withTypeMapping(buffers);
taker.on("error", () => {});
await taker.connect();
await dq("DQ.MOFFER", queue, "0", "one", "0", "", "0", BINARY);
const messages = [];
while (messages.length < 3) {
  const taken = await taker.sendCommand(["DQ.TAKE", queue, "COUNT", "3", "BLOCK", "5s"]);
  messages.push(...taken.map(fields));
}
const [first, second, third] = messages;
assert.deepEqual(
  messages.map(({ payload, attempt }) => [payload, attempt]),
  [Buffer.from("one"), Buffer.from(""), BINARY].map((payload) => [payload, 1]),
);
const acked = await broker.sendCommand(["DQ.ACK", queue, first.receipt]);
assert.equal(acked, 1);
assert.equal(await dq("DQ.ACK", queue, first.receipt), 0);
assert.equal(await dq("DQ.EXTEND", queue, second.receipt, third.receipt, "LEASE", "2m"), 2);
assert.equal(await dq("DQ.NACK", queue, second.receipt, "DELAY", "0", "REASON", "not yet"), 1);
const again = fields((await taker.sendCommand(["DQ.TAKE", queue, "BLOCK", "5s"]))[0]);
assert.deepEqual([again.id, again.attempt, again.payload.length], [second.id, 2, 0]);
assert.equal(await dq("DQ.ACK", queue, again.receipt, third.receipt), 2);
assert.equal(await taker.sendCommand(["DQ.TAKE", queue]), null);
await taker.close();
passed("consume");

const pool = createClientPool(options, { minimum: 50, maximum: 50 });
pool.on("error", () => {});
await pool.connect();
const workers = Array.from({ length: 50 }, async () => {
  for (let i = 0; i < 20; i++) {
    await pool.sendCommand(["DQ.OFFER", `${queue}:pool`, "1h", "x"]);
  }
});
await Promise.all(workers);
assert.equal(await dq("DQ.SIZE", `${queue}:pool`), 1000);
await pool.close();
passed("pool");

// What is sent while there is no connection waits for the next one; what was under way fails.
await promisify(execFile)(RESTART);
assert.equal(await dq("DQ.SIZE", queue), 2);
passed("restart");

await broker.close();
await backing.close();
passed("quit");
