// RSMQ. Its receive does not wait, so each of the 50 asks again: at once while there are messages,
// and 100 ms after there was none (rsmq-worker waits 0, 1, 5, then 10 s).
import { setTimeout as pause } from "node:timers/promises";
import RedisSMQ from "rsmq";
import { concurrency, queue as qname } from "./common.js";

const rsmq = new RedisSMQ({ host: "127.0.0.1", port: Number(process.env.PORT) });

export async function producer() {
  return (message, delay) => rsmq.sendMessageAsync({ qname, message, delay: delay / 1000 });
}

export async function work(handle) {
  await rsmq.createQueueAsync({ qname });
  const one = async () => {
    for (;;) {
      const { id, message } = await rsmq.receiveMessageAsync({ qname });
      if (id === undefined) {
        await pause(100);
        continue;
      }
      handle(message);
      await rsmq.deleteMessageAsync({ qname, id });
    }
  };
  for (let i = 0; i < concurrency; i++) one();
}
