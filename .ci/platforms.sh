#!/usr/bin/env bash
# Builds and vets errand's module, tests included, without cgo, for each platform named, such as
# linux/arm. The default is Linux, macOS, Windows, FreeBSD and OpenBSD on amd64, arm64, arm and 386, if
# Go has them: half a minute each on two cores. Prints a line per platform, and the output of those
# that fail.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off CGO_ENABLED=0

[ $# -gt 0 ] || set -- $(go tool dist list | grep -E '^(linux|darwin|windows|freebsd|openbsd)/(amd64|arm64|arm|386)$')
flags=(-gcflags=all="-N -l") # nobody runs it
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# packages [-test]: prints the packages to build. modernc.org/sqlite does not exist for 32 bits of
# OpenBSD, so packages that need it are left out there: dburl, and with -test those whose tests do.
packages() {
	case $GOOS/$GOARCH in
	openbsd/386 | openbsd/arm) ;;
	*) echo ./... && return ;;
	esac
	go list -e "$@" -f '{{if .GoFiles}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... | awk '
		NF { sub(/[._]test$/, "", $1); seen[$1]; if (/ modernc.org\/sqlite/) needy[$1] }
		END { for (p in seen) if (!(p in needy)) print p }'
}

failed=0
for platform; do
	export GOOS=${platform%/*} GOARCH=${platform#*/}
	start=$SECONDS
	if { go build "${flags[@]}" $(packages) && go vet "${flags[@]}" $(packages -test); } >"$log" 2>&1; then
		echo "ok   $platform, $((SECONDS - start)) s"
	else
		cat "$log"
		echo "FAIL $platform, $((SECONDS - start)) s"
		failed=1
	fi
done
exit $failed
