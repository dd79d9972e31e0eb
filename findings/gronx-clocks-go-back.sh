#!/bin/sh
# gronx and gorhill/cronexpr leave an hourly schedule silent for two hours when clocks go back.
#
# On 25 October 2026 the clocks of Berlin show 2:30 twice, an hour apart. A good engineer expects a
# tick of `30 * * * *` at both, an hour apart, as robfig/cron has them. gronx 1.20.4 and
# gorhill/cronexpr go from 1:30 to the second 2:30: two hours.
#
# errand fires both: docs/zones.md, "When clocks change". It needs go.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOWORK=off GOFLAGS=-mod=mod
cat >go.mod <<'MOD'
module finding

go 1.26

require (
	github.com/adhocore/gronx v1.20.4
	github.com/gorhill/cronexpr v0.0.0-20180427100037-88b0669f7d75
	github.com/robfig/cron/v3 v3.0.1
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/adhocore/gronx"
	"github.com/gorhill/cronexpr"
	"github.com/robfig/cron/v3"
)

func main() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	from := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC).In(berlin) // 1:00
	s, err := cron.ParseStandard("30 * * * *")
	if err != nil {
		panic(err)
	}
	show("robfig", from, s.Next)
	show("gronx", from, func(t time.Time) time.Time {
		next, err := gronx.NextTickAfter("30 * * * *", t, false)
		if err != nil {
			panic(err)
		}
		return next
	})
	show("gorhill", from, cronexpr.MustParse("30 * * * *").Next)
}

func show(name string, t time.Time, next func(time.Time) time.Time) {
	fmt.Print(name, ":")
	for range 3 {
		t = next(t)
		fmt.Print(" ", t.UTC().Format("15:04"))
	}
	fmt.Println(" UTC")
}
GO
go mod tidy >/dev/null 2>&1
echo "robfig/cron 3.0.1, gronx 1.20.4, gorhill/cronexpr 88b0669f7d75"
go run . | tee out
grep -qx "robfig: 23:30 00:30 01:30 UTC" out &&
  grep -qx "gronx: 23:30 01:30 02:30 UTC" out &&
  grep -qx "gorhill: 23:30 01:30 02:30 UTC" out
