#!/bin/sh
# hashicorp/cronexpr and gorhill/cronexpr lose days of the range `5-7`, Friday to Sunday.
#
# Both take 7 for Sunday (`0 0 * * 7`), so a good engineer expects that `5-7` is Friday, Saturday and
# Sunday, as in cron. hashicorp/cronexpr 1.1.3 leaves Sunday out; gorhill/cronexpr has no next time
# at all. Parse returns no error.
#
# In errand 7 ends a range: queue/cron, docs/migrating.md. It needs go.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOWORK=off GOFLAGS=-mod=mod
cat >go.mod <<'MOD'
module finding

go 1.26

require (
	github.com/gorhill/cronexpr v0.0.0-20180427100037-88b0669f7d75
	github.com/hashicorp/cronexpr v1.1.3
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"time"

	gorhill "github.com/gorhill/cronexpr"
	hashicorp "github.com/hashicorp/cronexpr"
)

type parsed interface{ NextN(time.Time, uint) []time.Time }

func main() {
	for _, expression := range []string{"0 0 * * 7", "0 0 * * 5-7"} {
		h, err := hashicorp.Parse(expression)
		show("hashicorp", expression, h, err)
		g, err := gorhill.Parse(expression)
		show("gorhill", expression, g, err)
	}
}

func show(name, expression string, p parsed, err error) {
	fmt.Printf("%s %s: error %v, next", name, expression, err)
	for _, t := range p.NextN(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), 3) {
		fmt.Print(" ", t.Format("Mon 02"))
	}
	fmt.Println()
}
GO
go mod tidy >/dev/null 2>&1
echo "hashicorp/cronexpr 1.1.3, gorhill/cronexpr 88b0669f7d75, from Saturday, 28 November 2026"
go run . | tee out
grep -qx "hashicorp 0 0 \* \* 7: error <nil>, next Sun 29 Sun 06 Sun 13" out &&
  grep -qx "hashicorp 0 0 \* \* 5-7: error <nil>, next Fri 04 Sat 05 Fri 11" out &&
  grep -qx "gorhill 0 0 \* \* 5-7: error <nil>, next" out
