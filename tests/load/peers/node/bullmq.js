// BullMQ with the settings that it has by itself; what is done is removed, as most do.
import { Queue, Worker } from "bullmq";
import { concurrency, queue as name } from "./common.js";

const connection = { host: "127.0.0.1", port: Number(process.env.PORT) };

export async function producer() {
  const queue = new Queue(name, { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  return (payload, delay) => queue.add(name, payload, delay > 0 ? { delay } : {});
}

export async function work(handle) {
  const worker = new Worker(name, async (job) => handle(job.data), { connection, concurrency });
  await worker.waitUntilReady();
}
