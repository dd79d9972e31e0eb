// BullMQ: its worker, and what enqueues. Completed jobs are deleted.
"use strict";
const { Queue, Worker } = require("bullmq");
const { Redis, Cluster } = require("ioredis");
const { spec, begin, main } = require("./child.js");

const concurrency = 100;
const warmUp = 10; // child.WarmUp
const kind = "bench.order";
const seconds = (duration) => duration / 1e9; // of a Spec

// A cluster needs the braces: they put all keys of a queue on one node.
const prefix = "{bench}";

function connect() {
  const nodes = spec.redis.map((address) => {
    const [host, port] = address.split(":");
    return { host, port: Number(port) };
  });
  const options = { maxRetriesPerRequest: null }; // as a Worker requires
  if (nodes.length === 1) return new Redis({ ...nodes[0], ...options });
  return new Cluster(nodes, { redisOptions: options });
}

const sleep = (milliseconds) => new Promise((end) => setTimeout(end, milliseconds));

// close closes a queue or a worker, and its connection. On a cluster that once did not end.
const close = (client, connection) => Promise.race([client.close().then(() => connection.quit()), sleep(10_000)]);

// open returns a queue and what closes it.
async function open() {
  const connection = connect();
  const queue = new Queue("jobs", { connection, prefix, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  return { queue, close: () => close(queue, connection) };
}

const order = (number) => ({ order: number, to: "alice@example.com" });

const addOne = (queue, number) => queue.add(kind, order(number));

const addMany = (queue, first, n) =>
  queue.addBulk(Array.from({ length: n }, (_, i) => ({ name: kind, data: order(first + i) })));

// quantile returns the smallest value that is not below a share q of them.
function quantile(sorted, q) {
  return sorted[Math.min(Math.max(Math.ceil(q * sorted.length), 1), sorted.length) - 1];
}

const ascending = (values) => values.sort((a, b) => a - b);

// startWorker starts a worker that calls handle with the number of each job. Without handle it runs no jobs.
function startWorker(connection, handle) {
  const worker = new Worker("jobs", handle && (async (job) => handle(job.data.order)), {
    connection, prefix, concurrency,
  });
  worker.on("error", (error) => console.error(error));
  return worker;
}

// load enqueues jobs before a measurement.
async function load() {
  const { queue, close } = await open();
  await addMany(queue, spec.first, spec.jobs);
  await close();
}

async function work() {
  const child = await begin();
  const connection = connect();
  const worker = startWorker(connection, child.count);
  await child.ended;
  await close(worker, connection);
  child.finish();
}

async function enqueue() {
  const { queue, close } = await open();
  await addMany(queue, spec.jobs, warmUp);
  const child = await begin();
  const from = performance.now();
  for (let first = 0; first < spec.jobs; first += spec.batch) {
    await addMany(queue, first, Math.min(spec.batch, spec.jobs - first));
  }
  const took = performance.now() - from;
  await close();
  child.finish({ rate: 1000 * spec.jobs / took });
}

// concurrently calls call again and again from n callers, while more returns true and call does not return false. It
// returns how many milliseconds the calls took.
async function concurrently(n, more, call) {
  const took = [];
  const caller = async (i) => {
    while (more()) {
      const from = performance.now();
      if (await call(i) === false) return;
      took.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: n }, (_, i) => caller(i)));
  return took;
}

// timed calls call from the Spec's number of callers, first for a warm-up and then for its time.
async function timed(call) {
  let left = warmUp * spec.goroutines;
  await concurrently(spec.goroutines, () => left-- > 0, call);
  const child = await begin();
  const from = performance.now();
  const took = await concurrently(spec.goroutines, () => performance.now() - from < 1000 * seconds(spec.duration), call);
  const rate = 1000 * took.length / (performance.now() - from);
  ascending(took);
  return { child, figures: { rate, jobs: took.length, p50: quantile(took, 0.5), p99: quantile(took, 0.99) } };
}

async function singles() {
  const { queue, close } = await open();
  const { child, figures } = await timed(() => addOne(queue, 0));
  await close();
  child.finish(figures);
}

// takes claims and settles jobs in two calls each.
async function takes() {
  const connection = connect();
  const worker = startWorker(connection, null);
  await worker.waitUntilReady();
  const { child, figures } = await timed(async (i) => {
    const token = "caller " + i;
    const job = await worker.getNextJob(token, { block: false });
    if (!job) return false;
    await job.moveToCompleted(null, token, false);
  });
  await close(worker, connection);
  child.finish(figures);
}

const senders = 16; // of the warm-up
const patience = 20_000; // how many milliseconds the last jobs may take
const settleDown = 500; // how many milliseconds the worker rests before the warm-up and after it

// latency works and enqueues in one process, so that one clock measures the time from the end of the enqueueing call to
// the handler.
async function latency() {
  const { queue, close: closeQueue } = await open();
  const child = await begin();
  const jobs = Math.trunc(spec.rate * seconds(spec.duration));
  const sent = [], started = [];
  const connection = connect();
  const worker = startWorker(connection, (number) => {
    started[number] = performance.now();
    child.count(number);
  });
  await sleep(settleDown);
  await Promise.all(Array.from({ length: senders }, (_, i) => addOne(queue, jobs + i)));
  await sleep(settleDown);

  const calls = [];
  const from = performance.now();
  for (let i = 0; i < jobs; i++) {
    const due = from + 1000 * i / spec.rate;
    while (performance.now() < due) await sleep(due - performance.now());
    calls.push(addOne(queue, i).then(() => (sent[i] = performance.now())));
  }
  await Promise.all(calls);
  for (const since = performance.now(); child.handled() < jobs + senders; await sleep(10)) {
    if (performance.now() - since > patience) throw new Error(`${child.handled()} of ${jobs + senders} jobs handled`);
  }
  await close(worker, connection);
  await closeQueue();
  const late = ascending(sent.map((at, i) => Math.max(started[i] - at, 0)));
  child.finish({ p50: quantile(late, 0.5), p99: quantile(late, 0.99), max: late[late.length - 1] });
}

main({ load, work, enqueue, singles, takes, latency });
