#!/usr/bin/env bash
# Looks for known vulnerabilities that the code of any module here can reach, tests included, with
# govulncheck and the database that GOVULNDB names (default: the Go project's). Prints a line per
# module. Exits with 3 if the database cannot be reached, so that nothing was checked, and with 1
# after any other failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOWORK=off

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
GOBIN=$dir go install golang.org/x/vuln/cmd/govulncheck@v1.8.0

failed=0
for mod in $(find . -name go.mod | sort -r); do
	module=$(dirname "$mod") start=$SECONDS
	if (cd "$module" && "$dir/govulncheck" -db "${GOVULNDB:-https://vuln.go.dev}" -test ./...) >"$dir/log" 2>&1; then
		echo "ok   $module, $((SECONDS - start)) s"
	elif grep -qE '^govulncheck: fetching vulnerabilities: Get "[^"]*": (proxyconnect tcp: )?dial tcp' "$dir/log"; then
		echo "NOT CHECKED for vulnerabilities: the database cannot be reached"
		exit 3
	else
		cat "$dir/log"
		echo "FAIL $module, $((SECONDS - start)) s"
		failed=1
	fi
done
exit $failed
