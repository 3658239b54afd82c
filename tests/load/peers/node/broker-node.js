// Delay Broker by ioredis: one connection takes as many as there are free places, and another one
// acknowledges each message.
import { Redis } from "ioredis";
import { concurrency, queue } from "./common.js";

const broker = new Redis({ host: "127.0.0.1", port: Number(process.env.PORT) });

export async function producer() {
  return (payload, delay) => broker.call("DQ.OFFER", queue, delay, payload);
}

export async function work(handle) {
  const taker = broker.duplicate();
  let active = 0;
  let freed = () => {};
  const one = async (message) => {
    const field = (name) => message[message.indexOf(name) + 1];
    handle(field("payload"));
    await broker.call("DQ.ACK", queue, field("receipt"));
    active--;
    freed();
  };
  const take = async () => {
    for (;;) {
      if (active === concurrency) await new Promise((resolve) => (freed = resolve));
      const count = concurrency - active;
      const taken = (await taker.call("DQ.TAKE", queue, "COUNT", count, "BLOCK", "2s")) ?? [];
      active += taken.length;
      taken.forEach(one);
    }
  };
  take();
}
