// One side of a queue that is measured: a producer, or a worker with 50 messages at a time whose
// handler only notes the time. `main.js PEER producer COUNT DELAY_MS PER_SECOND` and `main.js PEER
// worker COUNT`; PORT is where the peer's server listens. ../run says what is printed.
import { setTimeout as pause } from "node:timers/promises";
import { concurrency } from "./common.js";

const PAYLOAD_BYTES = 100;

const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const say = (what) => console.log(JSON.stringify(what));

// As many offers under way as handlers; PER_SECOND 0 is as fast as it goes.
async function produce(peer, count, delayMs, perSecond) {
  const offer = await peer.producer();
  const first = nowUs();
  let next = 0;
  const one = async () => {
    while (next < count) {
      const i = next++;
      if (perSecond > 0) {
        const at = first + (i * 1e6) / perSecond;
        while (nowUs() < at) await pause(1);
      }
      await offer(`${i}:${nowUs() + delayMs * 1000}:`.padEnd(PAYLOAD_BYTES, "."), delayMs);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, one));
  say({ first, last: nowUs() });
}

async function work(peer, count) {
  const seen = new Set();
  const late = [];
  let doubled = 0;
  let end;
  const done = new Promise((resolve) => (end = resolve));
  await peer.work((payload) => {
    const now = nowUs();
    const [i, due] = payload.split(":");
    if (seen.has(i)) {
      doubled++;
      return;
    }
    seen.add(i);
    late.push(now - Number(due));
    if (seen.size === count) end(now);
  });
  console.log("ready");
  const last = await done;
  late.sort((a, b) => a - b);
  const at = (part) => late[Math.min(late.length - 1, Math.floor(late.length * part))];
  // The clocks of some count whole ms.
  const early = late.filter((us) => us < -1000).length;
  say({ last, p50: at(0.5), p99: at(0.99), max: at(1), min: late[0], early, doubled });
}

const [name, role, count, delayMs, perSecond] = process.argv.slice(2);
const peer = await import(`./${name}.js`);
if (role === "producer") await produce(peer, Number(count), Number(delayMs), Number(perSecond));
else await work(peer, Number(count));
process.exit(0);
