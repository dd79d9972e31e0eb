// The worker of graphile-worker, as a child of bench. It talks to its parent by the protocol of package child, on its
// standard input and output. Its argument is the Spec.
"use strict";
const fs = require("node:fs");
const { Pool } = require("pg");
const { run, runMigrations, Logger } = require("graphile-worker");

const spec = JSON.parse(process.argv[2]);

const logger = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(message + "\n");
});

// The first are the settings of graphile-worker's own benchmark, the second its defaults.
const settings = {
  "graphile-best": {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  "graphile-default": {},
};

const say = (line) => process.stdout.write(line + "\n");

function peakRSS() {
  try {
    return 1024 * Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]);
  } catch {
    return 1024 * process.resourceUsage().maxRSS;
  }
}

async function install() {
  await runMigrations({ connectionString: spec.dsn, logger });
}

async function work() {
  const preset = { worker: settings[spec.system] };
  const pool = new Pool({ connectionString: spec.dsn, max: preset.worker.maxPoolSize ?? 10 });
  pool.on("error", () => {});
  let handled = 0, told = 0, sum = 0;
  const taskList = {
    "bench.order": (payload) => {
      handled++;
      sum += payload.order;
    },
  };
  say("ready");
  await new Promise((go) => process.stdin.once("data", go));
  const ended = new Promise((end) => process.stdin.once("end", end));
  process.stdin.resume();
  const before = process.cpuUsage();
  const ticker = setInterval(() => {
    if (handled !== told) say("count " + (told = handled));
  }, 2);
  const runner = await run({ pgPool: pool, preset, taskList, logger, noHandleSignals: true });
  await ended;
  await runner.stop();
  clearInterval(ticker);
  const cpu = process.cpuUsage(before);
  say("result " + JSON.stringify({
    handled, sum, cpu: (cpu.user + cpu.system) / 1e6, peak_rss: peakRSS(),
  }));
  await pool.end();
}

(spec.part === "install" ? install() : work()).catch((error) => {
  console.error(error);
  process.exit(1);
});
