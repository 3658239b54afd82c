// A consumer of a stream with ioredis, which tests/interop/streams.py runs.

import Redis from "ioredis";

const { QUEUE, BROKER_PORT, REDIS_PORT } = process.env;
const broker = new Redis(Number(BROKER_PORT));
const backing = new Redis(Number(REDIS_PORT));

async function handle(entry, list) {
  const fields = {};
  for (let i = 0; i < list.length; i += 2) fields[list[i]] = list[i + 1];
  const attempt = Number(fields.attempt ?? 1);
  console.log(fields.payload, attempt);
  if (fields.payload === "die" && attempt === 1) process.exit(0);
  if (fields.payload === "back" && attempt === 1) {
    await broker.call("DQ.NACK", QUEUE, "GROUP", "g", entry, "DELAY", 100, "REASON", "not yet");
  } else {
    await backing.xack(QUEUE, "g", entry);
  }
}

(async () => {
  console.log("reads");
  for (;;) {
    const read = ["GROUP", "g", "worker", "COUNT", 10, "BLOCK", 2000, "STREAMS", QUEUE, ">"];
    for (const [, entries] of (await backing.xreadgroup(...read)) ?? []) {
      for (const [entry, fields] of entries) await handle(entry, fields);
    }
  }
})();
