// A listener: calls functions with the messages of queues. Below it is its test, which
// tests/interop/listeners.py runs.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

export class Listener {
  stopping = false;
  queues = [];

  constructor(options) {
    this.broker = new Redis(options);
    this.broker.on("error", () => {}); // Commands say it too.
  }

  // `onMessage(payload, attempt)` for `places` messages at a time; its promise is the work.
  register(queue, onMessage, onError, { places = 4, leaseMs = 30_000 } = {}) {
    this.queues.push({ queue, onMessage, onError, places, leaseMs });
  }

  start() {
    this.listening = Promise.all(this.queues.map((one) => this.#listen(one)));
  }

  // Returns when the last handler has ended, or after 2 seconds if none is at work.
  async stop() {
    this.stopping = true;
    await this.listening;
    await this.broker.quit();
  }

  async #listen({ queue, onMessage, onError, places, leaseMs }) {
    const taker = this.broker.duplicate(); // Commands would wait behind a take that waits.
    taker.on("error", () => {});
    const settle = async (name, ...args) => {
      for (const pause of [100, 1000, 5000, 0]) {
        try {
          return await this.broker.call(name, queue, ...args); // It may be repeated.
        } catch (error) {
          onError(error);
          await sleep(pause);
        }
      }
    };
    const handle = async ({ receipt, payload, attempt }) => {
      const extend = () =>
        this.broker.call("DQ.EXTEND", queue, receipt, "LEASE", leaseMs).catch(onError);
      const extender = setInterval(extend, leaseMs / 3);
      try {
        await onMessage(payload, attempt);
        await settle("DQ.ACK", receipt);
      } catch (error) {
        await settle("DQ.NACK", receipt, "REASON", Buffer.from(String(error)).subarray(0, 512));
        onError(error, payload);
      } finally {
        clearInterval(extender);
      }
    };
    const atWork = new Set();
    while (!this.stopping) {
      if (atWork.size === places) {
        await Promise.race(atWork);
        continue;
      }
      try {
        const options = ["COUNT", places - atWork.size, "BLOCK", "2s", "LEASE", leaseMs];
        const taken = (await taker.callBuffer("DQ.TAKE", queue, ...options)) ?? [];
        for (const message of taken.map(fields)) {
          if (this.stopping) {
            await settle("DQ.NACK", message.receipt, "SILENT");
          } else {
            const work = handle(message).finally(() => atWork.delete(work));
            atWork.add(work);
          }
        }
      } catch (error) {
        onError(error);
        await sleep(1000);
      }
    }
    await Promise.all(atWork);
    await taker.quit();
  }
}

// ioredis shows a map as names and values in turn.
const fields = (flat) =>
  Object.fromEntries(flat.flatMap((key, i) => (i % 2 ? [] : [[String(key), flat[i + 1]]])));

async function onMessage(bytes, attempt) {
  const payload = String(bytes);
  console.log(`begins ${payload} ${attempt}`);
  await sleep(payload.startsWith("slow") ? 6000 : 20);
  if (payload.startsWith("fail") && attempt === 1) throw new Error("not yet");
  console.log(`ends ${payload} ${attempt}`);
}

const { QUEUE, BROKER_PORT } = process.env;
const listener = new Listener({ port: Number(BROKER_PORT) });
const onError = (error, payload = "-") => console.log(`fails ${payload} ${error}`);
listener.register(QUEUE, onMessage, onError, { places: 4, leaseMs: 4000 });
process.on("SIGTERM", () => {
  const stopped = listener.stop();
  console.log("stopping");
  return stopped;
});
listener.start();
