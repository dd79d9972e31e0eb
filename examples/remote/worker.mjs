// A worker in JavaScript for Node, without packages. It counts words in texts.
//
//     GATEWAYS="http://one:8080 http://two:8080" TOKEN=secret node worker.mjs
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const gateways = process.env.GATEWAYS.split(" ");
const headers = {
  authorization: `Bearer ${process.env.TOKEN}`,
  "content-type": "application/json",
};
const worker = `node-${hostname()}-${process.pid}`;
const second = 1e9; // the API counts nanoseconds
const lease = 2; // seconds: how long after a crash a job runs again
const handlers = 4; // that run at once

const stopping = new AbortController();

// handle counts words. ended aborts when the outcome is no longer wanted.
async function handle(payload, ended) {
  await sleep(payload.ms, undefined, { signal: ended });
  return { words: payload.text.split(/\s+/).filter(Boolean).length, by: "node" };
}

// call asks the gateways one after the other until one answers. null if it is too late.
async function call(path, body, { seconds = 10, until = Infinity, hangUp } = {}) {
  while (performance.now() < until) {
    hangUp?.throwIfAborted();
    const gateway = gateways[0];
    const late = new AbortController(); // Node 20 forgets an AbortSignal.timeout in an any
    const abort = () => late.abort();
    const timer = setTimeout(abort, seconds * 1000);
    hangUp?.addEventListener("abort", abort);
    let pause = 0.2;
    try {
      const request = { method: "POST", headers, body: JSON.stringify(body), signal: late.signal };
      const answer = await fetch(`${gateway}/v1/${path}`, request);
      if (answer.status === 429) pause = Number(answer.headers.get("retry-after") ?? 1);
      const value = await answer.json();
      if (answer.ok) return value;
      if (answer.status < 500 && answer.status !== 429) { // it would be so again
        console.log(worker, path, value.error);
        if (path === "settle") return { lost: [] }; // only this job is lost here: it runs again
        process.exit(1);
      }
    } catch {
      // hung up, cut off, slow, or half an answer
    } finally {
      clearTimeout(timer);
      hangUp?.removeEventListener("abort", abort);
    }
    if (gateways[0] === gateway) gateways.push(gateways.shift());
    await sleep(pause * 1000);
  }
  return null;
}

// work claims jobs, one after the other, and runs each.
async function work() {
  const body = { queues: ["texts"], worker, lease_ns: lease * second, wait_ns: 20 * second };
  while (!stopping.signal.aborted) {
    const { jobs } = await call("claim", body, { seconds: 30, hangUp: stopping.signal });
    for (const job of jobs) await run(job);
  }
}

// run runs the handler of a job, extends the lease meanwhile, and settles the job.
async function run(job) {
  if (!Number.isSafeInteger(job.id)) throw new Error("this gateway's IDs need 64 bits");
  const proof = { id: job.id, fence: job.fence, worker }; // that this worker holds the job
  const { attempt } = job;
  const ended = new AbortController();
  let outcome, until = performance.now() + lease * 1000;
  const done = handle(job.payload, ended.signal).then(
    (output) => (outcome ??= { action: "done", output }),
    (err) => (outcome ??= { action: "retry", attempt, error: String(err), stack: err.stack }),
  );
  while (await Promise.race([done.then(() => false), sleep((lease / 3) * 1000, true)])) {
    const began = performance.now();
    const body = { lease_ns: lease * second, jobs: [proof] };
    const answer = await call("extend", body, { seconds: lease / 3, until });
    if (answer?.asked.length) outcome ??= { action: "cancel" }; // somebody has cancelled the job
    if (!answer || answer.lost.length || answer.asked.length) ended.abort();
    until = began + lease * 1000;
  }
  let answer;
  do answer = await call("settle", { outcomes: [{ ...proof, ...outcome }] });
  while (answer.locked?.length); // a transaction has locked the job: try again
  if (answer.lost.length) console.log(`${worker}: job ${job.id} is held elsewhere, void here`);
}

for (const name of ["SIGINT", "SIGTERM"]) process.on(name, () => stopping.abort());
console.log(`${worker}: working`);
for (const { reason } of await Promise.allSettled(Array.from({ length: handlers }, work))) {
  if (!reason || reason === stopping.signal.reason) continue;
  console.error(worker, reason);
  process.exitCode = 1;
}
process.exit();
