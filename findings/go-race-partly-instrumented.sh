#!/bin/sh
# go build -race with -gcflags=PATTERN=-race=0 for one dependency reports data races in other code.
#
# A good engineer who leaves a big dependency out of the race detector, such as the C code in
# modernc.org/sqlite, expects to miss races there, and nothing else: synchronisation in his own code
# and in the standard library is still seen. But sync.Map is a generic type within, and each package
# that uses it brings its compiled code along. The linker keeps one copy, here that of the dependency,
# which does not tell the detector about its atomics. So every sync.Map of the program seems not to
# synchronise, also the cache of types in encoding/json: a correct program of four goroutines that
# read JSON "races". Instrumented as a whole it does not. modernc.org/sqlite came to use sync.Map in
# its driver after 1.60, so an update of it made an old build command report races.
#
# errand leaves out the packages with C code alone, which use no generic type: RACE in the Makefile.
# It needs go with cgo.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	_ "modernc.org/sqlite"
)

func main() {
	for n := range 200 {
		// A type that encoding/json has not seen: its first readers share the new entry of the cache.
		t := reflect.StructOf([]reflect.StructField{{Name: fmt.Sprintf("A%d", n), Type: reflect.TypeFor[int](), Tag: `json:"a"`}})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := json.Unmarshal([]byte(`{"a": 1}`), reflect.New(t).Interface()); err != nil {
					panic(err)
				}
			})
		}
		all.Wait()
	}
}
GO
cat >go.mod <<'MOD'
module example.org/finding

go 1.26

require modernc.org/sqlite v1.62.0
MOD
export GOFLAGS=-mod=mod GOWORK=off
go mod tidy >/dev/null 2>&1
go build -race -o whole .
go build -race '-gcflags=modernc.org/...=-race=0' -o partly .
races() { "$1" 2>&1 | grep -c 'WARNING: DATA RACE' || true; }
go version
echo "modernc.org/sqlite v1.62.0"
whole=$(races ./whole)
partly=$(races ./partly)
echo "races reported, all instrumented:                $whole"
echo "races reported, all but modernc.org instrumented: $partly"
[ "$whole" = 0 ] && [ "$partly" -gt 0 ]
