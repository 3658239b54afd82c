// The broker from ioredis, with no option but the protocol: ioredis.js BROKER_PORT REDIS_PORT 2|3
//
// Two connections: `broker` takes messages in, `backing` is where they come out, as a plain list.
// Knows no other client; fails with the line that was not so. Its queue is its own.

import assert from "node:assert/strict";
import { Redis } from "ioredis";

const [brokerPort, redisPort, protocol] = process.argv.slice(2).map(Number);
const Q = `interop:ioredis:${protocol}`;
const BINARY = Buffer.from("\0nul\r\ncrlf\xff\0", "latin1");

// Protocol 3 is what ioredis 6 opens with when told nothing.
const options = protocol === 3 ? {} : { protocol };
const broker = new Redis(brokerPort, options);
const backing = new Redis(redisPort, options);
const dq = (name, ...args) => broker.call(name, ...args);

// Every form of an offer answers the id of the message: <due>-<hex>.
const tomorrow = Date.now() + 86_400_000;
const first = await dq("DQ.OFFER", Q, "1h", "in an hour");
await dq("DQ.OFFER", Q, 5_400_000, "in 90 minutes");
const at = await dq("DQ.OFFER", Q, "AT", tomorrow, BINARY);
assert.ok(at.startsWith(`${tomorrow}-`), at);
await dq("DQ.OFFER", Q, "AT", new Date(tomorrow + 1000).toISOString(), "a second later");
const named = await dq("DQ.OFFER", Q, "2h", "order 42", "NAME", "order:42");
assert.equal(await dq("DQ.OFFER", Q, "3h", "again", "NAME", "order:42", "NX"), null);
const replaced = await dq("DQ.OFFER", Q, "3h", "order 42, paid", "NAME", "order:42", "XX");
assert.notEqual(replaced, named);
const ids = await dq("DQ.MOFFER", Q, "4h", "one", "5h", "", "6h", BINARY);
assert.equal(new Set(ids).size, 3);
assert.equal(await dq("DQ.SIZE", Q), 8);

// What comes next, by due time. ioredis flattens the maps of RESP3, unless told otherwise.
const fields = (flat) =>
  Object.fromEntries(flat.flatMap((key, i) => (i % 2 ? [] : [[key, flat[i + 1]]])));
const peeked = await dq("DQ.PEEK", Q, "COUNT", 3);
const [head, , third] = peeked.map(fields);
assert.deepEqual(
  peeked.map((message) => fields(message).payload),
  ["in an hour", "in 90 minutes", "order 42, paid"],
);
assert.deepEqual([head.id, head.name, head.due], [first, null, parseInt(first)]);
assert.deepEqual([third.id, third.name], [replaced, "order:42"]);
const raw = await broker.callBuffer("DQ.GET", Q, at);
assert.deepEqual(raw[raw.findIndex((field) => String(field) === "payload") + 1], BINARY);
assert.deepEqual(await dq("DQ.PEEK", `${Q}:none`), []);
if (protocol === 3) {
  const mapped = broker.duplicate({ replyMapping: "resp3" });
  assert.deepEqual({ ...(await mapped.call("DQ.PEEK", Q, "COUNT", 1))[0] }, head);
  await mapped.quit();
}

// By id or by name; what is gone already counts 0.
assert.equal(await dq("DQ.CANCEL", Q, "order:42", ...ids), 4);
assert.equal(await dq("DQ.CANCEL", Q, "order:42", first), 1);
assert.equal(await dq("DQ.SIZE", Q), 3);

// The first word of an error is its code.
for (const [message, ...command] of [
  [/^BADDELAY /, "DQ.OFFER", Q, "soon", "x"],
  [/^BADQUEUE /, "DQ.OFFER", "", "1h", "x"],
  [/^ERR wrong number of arguments/, "DQ.OFFER", Q],
  [/^ERR unknown command/, "DQ.NONE", Q],
]) {
  await assert.rejects(dq(...command), { name: "ReplyError", message });
}

// A thousand in one write; the replies come in order.
const pipeline = broker.pipeline();
for (let i = 0; i < 1000; i++) {
  pipeline.call("DQ.OFFER", `${Q}:many`, "AT", tomorrow + i, `message ${i}`);
}
for (const [i, [error, id]] of (await pipeline.exec()).entries()) {
  assert.ok(error === null && id.startsWith(`${tomorrow + i}-`), `${i}: ${error ?? id}`);
}
assert.equal(await dq("DQ.SIZE", `${Q}:many`), 1000);

// Due messages are in the list of the queue's name, byte for byte.
await dq("DQ.OFFER", Q, "20ms", BINARY);
assert.deepEqual(await backing.blpopBuffer(Q, 10), [Buffer.from(Q), BINARY]);

assert.equal(await broker.quit(), "OK");
await backing.quit();
