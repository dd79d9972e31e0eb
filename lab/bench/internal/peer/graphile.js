// The worker of graphile-worker, and the installation of its tables.
"use strict";
const { Pool } = require("pg");
const { run, runMigrations, Logger } = require("graphile-worker");
const { spec, begin, main } = require("./child.js");

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

async function install() {
  await runMigrations({ connectionString: spec.dsn, logger });
}

async function work() {
  const preset = { worker: settings[spec.system] };
  const pool = new Pool({ connectionString: spec.dsn, max: preset.worker.maxPoolSize ?? 10 });
  pool.on("error", () => {});
  const child = await begin();
  const taskList = { "bench.order": (payload) => child.count(payload.order) };
  const runner = await run({ pgPool: pool, preset, taskList, logger, noHandleSignals: true });
  await child.ended;
  await runner.stop();
  child.finish();
  await pool.end();
}

main({ install, work });
