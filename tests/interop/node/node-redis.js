// The broker from node-redis, with no option but the protocol:
// node-redis.js BROKER_PORT REDIS_PORT 2|3
//
// Two connections: `broker` takes messages in, `backing` is where they come out, as a plain list.
// Knows no other client; fails with the line that was not so. Its queue is its own.

import assert from "node:assert/strict";
import { createClient, ErrorReply, RESP_TYPES } from "redis";

const [brokerPort, redisPort, protocol] = process.argv.slice(2).map(Number);
const Q = `interop:node-redis:${protocol}`;
const BINARY = Buffer.from("\0nul\r\ncrlf\xff\0", "latin1");

// Protocol 3 is what node-redis 6 opens with when told nothing.
const options = protocol === 3 ? {} : { RESP: protocol };
const connect = (port) => createClient({ url: `redis://127.0.0.1:${port}`, ...options }).connect();
const broker = await connect(brokerPort);
const backing = await connect(redisPort);
// node-redis takes strings and buffers only; it gives buffers back where it is told to.
const dq = (...args) => broker.sendCommand(args);
const buffers = { [RESP_TYPES.BLOB_STRING]: Buffer };

// Every form of an offer answers the id of the message: <due>-<hex>.
const tomorrow = Date.now() + 86_400_000;
const first = await dq("DQ.OFFER", Q, "1h", "in an hour");
await dq("DQ.OFFER", Q, "5400000", "in 90 minutes");
const at = await dq("DQ.OFFER", Q, "AT", String(tomorrow), BINARY);
assert.ok(at.startsWith(`${tomorrow}-`), at);
await dq("DQ.OFFER", Q, "AT", new Date(tomorrow + 1000).toISOString(), "a second later");
const named = await dq("DQ.OFFER", Q, "2h", "order 42", "NAME", "order:42");
assert.equal(await dq("DQ.OFFER", Q, "3h", "again", "NAME", "order:42", "NX"), null);
const replaced = await dq("DQ.OFFER", Q, "3h", "order 42, paid", "NAME", "order:42", "XX");
assert.notEqual(replaced, named);
const ids = await dq("DQ.MOFFER", Q, "4h", "one", "5h", "", "6h", BINARY);
assert.equal(new Set(ids).size, 3);
assert.equal(await dq("DQ.SIZE", Q), 8);

// What comes next, by due time: objects in RESP3, names and values in turn in RESP2.
const fields = (message) => {
  assert.equal(Array.isArray(message), protocol === 2);
  if (protocol === 3) return { ...message };
  return Object.fromEntries(message.flatMap((key, i) => (i % 2 ? [] : [[key, message[i + 1]]])));
};
const peeked = (await dq("DQ.PEEK", Q, "COUNT", "3")).map(fields);
assert.deepEqual(
  peeked.map((message) => message.payload),
  ["in an hour", "in 90 minutes", "order 42, paid"],
);
const [head, , third] = peeked;
assert.deepEqual([head.id, head.name, head.due], [first, null, parseInt(first)]);
assert.deepEqual([third.id, third.name], [replaced, "order:42"]);
const raw = await broker.sendCommand(["DQ.GET", Q, at], { typeMapping: buffers });
assert.deepEqual(fields(raw).payload, BINARY);
assert.deepEqual(await dq("DQ.PEEK", `${Q}:none`), []);

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
  await assert.rejects(dq(...command), (error) => {
    assert.ok(error instanceof ErrorReply);
    assert.match(error.message, message);
    return true;
  });
}

// A thousand in one write (what is sent in one turn of the event loop); replies come in order.
const offers = Array.from({ length: 1000 }, (_, i) =>
  dq("DQ.OFFER", `${Q}:many`, "AT", String(tomorrow + i), `message ${i}`),
);
for (const [i, id] of (await Promise.all(offers)).entries()) {
  assert.ok(id.startsWith(`${tomorrow + i}-`), `${i}: ${id}`);
}
assert.equal(await dq("DQ.SIZE", `${Q}:many`), 1000);

// Due messages are in the list of the queue's name, byte for byte.
await dq("DQ.OFFER", Q, "20ms", BINARY);
const taken = await backing.withTypeMapping(buffers).blPop(Q, 10);
assert.deepEqual(taken.element, BINARY);

await broker.close();
await backing.close();
