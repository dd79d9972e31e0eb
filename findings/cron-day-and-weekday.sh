#!/bin/sh
# Four cron libraries read `0 0 */2 * 1` and `0 0 1 * 1` in three ways.
#
# A good engineer expects that five valid fields mean the same everywhere, or knows cron's rule:
# either day field may match. robfig/cron and cron-parser keep to it, also for `*/2`. gronx does,
# but takes `*/2` for unrestricted, so that the weekday has to match, too. node-cron wants both days
# to match always. No library refuses the expression, or warns.
#
# errand's rule is robfig's: docs/migrating.md, "Cron expressions". It needs go, node and npm.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOWORK=off GOFLAGS=-mod=mod
cat >main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"
	"github.com/robfig/cron/v3"
)

// Days prints which days of December 2026 have a tick. Mondays are 7, 14, 21 and 28.
func main() {
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, expression := range []string{"0 0 */2 * 1", "0 0 1 * 1"} {
		s, err := cron.ParseStandard(expression)
		if err != nil {
			panic(err)
		}
		show("robfig/cron", expression, begin, s.Next)
		show("gronx", expression, begin, func(t time.Time) time.Time {
			next, err := gronx.NextTickAfter(expression, t, false)
			if err != nil {
				panic(err)
			}
			return next
		})
	}
}

func show(name, expression string, t time.Time, next func(time.Time) time.Time) {
	fmt.Printf("%s %s:", name, expression)
	for t = next(t); t.Year() == 2026; t = next(t) {
		fmt.Printf(" %d", t.Day())
	}
	fmt.Println()
}
GO
cat >go.mod <<'MOD'
module finding

go 1.26

require (
	github.com/adhocore/gronx v1.20.4
	github.com/robfig/cron/v3 v3.0.1
)
MOD
go mod tidy >/dev/null 2>&1
npm install --silent --no-audit --no-fund cron-parser@5.10.6 node-cron@4.6.0 >/dev/null 2>&1
cat >days.cjs <<'JS'
const {CronExpressionParser} = require('cron-parser'), nodeCron = require('node-cron');
const begin = new Date('2026-11-30T12:00:00Z');
for (const expression of ['0 0 */2 * 1', '0 0 1 * 1']) {
  const each = CronExpressionParser.parse(expression, {currentDate: begin, tz: 'UTC'});
  const days = [];
  for (let t = each.next().toDate(); t.getUTCFullYear() === 2026; t = each.next().toDate()) days.push(t.getUTCDate());
  console.log(`cron-parser ${expression}: ${days.join(' ')}`);
  // node-cron goes on from today: how many of its next ticks are no Monday?
  const task = nodeCron.createTask(expression, () => {}, {timezone: 'UTC'});
  task.start();
  const other = task.getNextRuns(12).filter((t) => t.getUTCDay() !== 1).length;
  console.log(`node-cron ${expression}: ${other} of the next 12 are no Monday`);
}
process.exit();
JS
echo "robfig/cron 3.0.1, gronx 1.20.4, cron-parser 5.10.6, node-cron 4.6.0: days of December 2026"
{ go run .; TZ=UTC node days.cjs; } | tee out
odd="1 3 5 7 9 11 13 14 15 17 19 21 23 25 27 28 29 31"
grep -qx "robfig/cron 0 0 \*/2 \* 1: $odd" out &&
  grep -qx "cron-parser 0 0 \*/2 \* 1: $odd" out &&
  grep -qx "gronx 0 0 \*/2 \* 1: 7 21" out &&
  grep -qx "gronx 0 0 1 \* 1: 1 7 14 21 28" out &&
  grep -qx "node-cron 0 0 \*/2 \* 1: 0 of the next 12 are no Monday" out &&
  grep -qx "node-cron 0 0 1 \* 1: 0 of the next 12 are no Monday" out
