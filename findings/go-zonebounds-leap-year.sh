#!/bin/sh
# Time.ZoneBounds says between which times a zone's offset holds, so one expects its end to be after
# the time. With Go's own time zone data (time/tzdata, or lib/time/zoneinfo.zip) the end is before the
# time, or equal to it, for the whole of 31 December (UTC) of a leap year, in each zone whose clocks
# change by a rule. A walk from end to end then stays where it is. The host's data often has each
# change until 2037, so there it begins in 2040. Known as https://go.dev/issue/81583.
# errand: zoneBounds in queue/cron/cron.go; TestFiftyYears.
# The program below does not walk. It needs go (1.26.8 or newer) in PATH, and nothing else.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'EOF'
module zonebounds

go 1.26
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"
	_ "time/tzdata"
)

func main() {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	fmt.Println(runtime.Version(), "Europe/Berlin, from", os.Getenv("ZONEINFO"))
	seen := true
	for _, year := range []int{2027, 2028} {
		at := time.Date(year, 12, 31, 12, 0, 0, 0, time.UTC)
		_, end := at.In(loc).ZoneBounds()
		fmt.Printf("at %s: end %s, after the time: %v\n", at.Format(time.RFC3339), end.UTC().Format(time.RFC3339), end.After(at))
		seen = seen && end.After(at) == (year == 2027)
	}
	if !seen {
		fmt.Println("changed: the end is as one expects")
		os.Exit(1)
	}
}
EOF
ZONEINFO=$(go env GOROOT)/lib/time/zoneinfo.zip go run .
