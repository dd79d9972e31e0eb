// What all programs for Node share: they are children of bench, and talk to their parent by the protocol of package
// child, on their standard input and output. Their argument is the Spec.
"use strict";
const fs = require("node:fs");

const spec = JSON.parse(process.argv[2]);

const say = (line) => process.stdout.write(line + "\n");

function peakRSS() {
  try {
    return 1024 * Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]);
  } catch {
    return 1024 * process.resourceUsage().maxRSS;
  }
}

// begin tells the parent that this child is ready, and waits for the word to begin. Then the parent gets the counts.
// It returns what the part needs: count for each job handled, ended, which resolves when the parent wants the end, and
// finish, which tells the result.
async function begin() {
  say("ready");
  const ended = new Promise((end) => process.stdin.once("end", () => end("ended")));
  const word = await Promise.race([new Promise((go) => process.stdin.once("data", go)), ended]);
  if (word === "ended") throw new Error("told to end before it began");
  process.stdin.resume();
  const before = process.cpuUsage();
  let handled = 0, told = 0, sum = 0;
  const ticker = setInterval(() => {
    if (handled !== told) say("count " + (told = handled));
  }, 2);
  return {
    ended,
    handled: () => handled,
    count(number) {
      handled++;
      sum += number;
    },
    finish(figures) {
      clearInterval(ticker);
      process.stdin.destroy(); // else it keeps the process alive
      const cpu = process.cpuUsage(before);
      say("result " + JSON.stringify({
        handled, sum, cpu: (cpu.user + cpu.system) / 1e6, peak_rss: peakRSS(), figures,
      }));
    },
  };
}

// main runs the part of the Spec, and ends the process, also if a connection is still open.
function main(parts) {
  parts[spec.part]().then(() => process.exit(), (error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { spec, begin, main };
